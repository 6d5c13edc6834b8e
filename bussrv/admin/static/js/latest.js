/**
 * The latest answer to a question that is asked again and again, for all views.
 */

import { Topic } from "./frame.js";
import { Poll } from "./poll.js";

export class Latest {
  /**
   * @param {function} ask returns the answer.
   * @param {number} pause milliseconds between two times.
   * @param {object} first until there is an answer.
   */
  constructor(ask, pause, first) {
    this.changed = new Topic();
    this.latest = first;
    this.problem = null;
    this.#poll = new Poll(
      async () => {
        this.latest = await ask();
        this.problem = null;
        this.changed.tell();
      },
      pause,
      (error) => {
        this.problem = error;
        this.changed.tell();
      },
    );
    this.again();
  }

  #poll;

  /** Ask now, and then again and again. */
  again() {
    this.#poll.start();
  }
}
