/**
 * What an address shows that names no view.
 */

import { fill, h } from "../dom.js";
import { name } from "../names.js";
import { frame } from "./frame.js";

export function missingView(app) {
  const content = h("div", { class: "scroll" });
  const view = frame({ title: "No such view", content, fixed: true });
  return {
    ...view,
    show() {
      const text = h("p", {}, "The address of this page names “", name(app.router.view, 80), "”.");
      const back = h("p", {}, h("a", { class: "button", href: app.router.address(app.router.first) }, "To the overview"));
      fill(content, h("div", { class: "nothing" }, h("b", {}, "There is no such view"), text, back));
    },
  };
}
