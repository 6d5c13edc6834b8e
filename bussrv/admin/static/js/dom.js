/**
 * Makes elements. Text goes in as text and never as markup, because names come from strangers.
 */

const SVG = "http://www.w3.org/2000/svg";

/** An HTML element; a function among the attributes listens to that event, `false` and `null` leave one out. */
export function h(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

/** An SVG element, by the same rules. */
export function s(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

/** Give an element these children instead of its own. */
export function fill(element, ...children) {
  element.replaceChildren(...children.flat(Infinity).filter(isThere));
  return element;
}

/** Fill an element only if `facts` are others than the last time: what somebody has opened, or focused, stays. */
export function refill(element, facts, make) {
  const key = JSON.stringify(facts);
  if (element.filledFor !== key) {
    element.filledFor = key;
    fill(element, make() ?? []);
  }
}

/** Set the text of an element if it is another one: most cells of a table stay as they are from frame to frame. */
export function setText(element, text) {
  if (element.shownText !== text) {
    element.shownText = text;
    element.textContent = text;
  }
}

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") {
      element.addEventListener(name.slice(2), value);
    } else if (value === true) {
      element.setAttribute(name, "");
    } else if (value !== false && value !== null && value !== undefined) {
      element.setAttribute(name, value);
    }
  }
  element.append(...children.flat(Infinity).filter(isThere));
  return element;
}

function isThere(child) {
  return child !== null && child !== undefined && child !== false;
}
