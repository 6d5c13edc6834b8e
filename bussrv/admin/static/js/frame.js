/**
 * Batches work: however often something changes, it is drawn once per animation frame, and no more often than people can
 * follow.
 */

/**
 * A function that has `work` done in a frame soon, once for all calls before it.
 *
 * @param {function} work what to do.
 * @param {number} gap milliseconds between two times at least.
 */
export function eachFrame(work, gap = 0) {
  let asked = false;
  let last = -Infinity;

  function run(now) {
    if (now - last < gap) {
      requestAnimationFrame(run);
      return;
    }
    asked = false;
    last = now;
    work();
  }

  return () => {
    if (!asked) {
      asked = true;
      requestAnimationFrame(run);
    }
  };
}

/** Something that others want to know of. */
export class Topic {
  #listeners = new Set();

  /** Call `listener` at each `tell`. @returns a function that ends it. */
  listen(listener) {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  tell(...news) {
    for (const listener of [...this.#listeners]) {
      listener(...news);
    }
  }
}
