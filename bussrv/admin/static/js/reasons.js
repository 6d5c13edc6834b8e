/**
 * What the codes mean, from the server that writes them.
 */

export class Reasons {
  #meanings = {};

  constructor(api) {
    this.api = api;
  }

  async load() {
    try {
      const { reasons, counters } = await this.api.get("codes");
      this.#meanings = { ...counters, ...reasons };
    } catch {
      // A code says enough for those who know it: nothing waits for its meaning.
    }
  }

  /** One sentence, or an empty text. */
  meaning(code) {
    return Object.hasOwn(this.#meanings, code) ? this.#meanings[code] : "";
  }
}
