/**
 * Asks for something again and again while it is looked at: never twice at a time, and less often if answers take long.
 */

/** An answer that took a second is asked for again after ten at the earliest; where there was none, nothing took long. */
const SHARE = 10;

export class Poll {
  #timer = null;
  #running = false;
  #wanted = false;

  /**
   * @param {function} work asks once, and shows the answer.
   * @param {number} pause milliseconds between two times.
   * @param {function} fail is given the error of a time that failed.
   */
  constructor(work, pause, fail = () => {}) {
    Object.assign(this, { work, pause, fail });
  }

  start() {
    this.#wanted = true;
    if (!this.#running) {
      this.#turn();
    }
  }

  stop() {
    this.#wanted = false;
    clearTimeout(this.#timer);
  }

  async #turn() {
    clearTimeout(this.#timer);
    this.#running = true;
    const began = performance.now();
    let took = 0;
    try {
      if (!document.hidden) {
        await this.work();
      }
      took = performance.now() - began;
    } catch (error) {
      this.fail(error);
    }
    this.#running = false;
    if (this.#wanted) {
      this.#timer = setTimeout(() => this.#turn(), Math.max(this.pause, SHARE * took));
    }
  }
}
