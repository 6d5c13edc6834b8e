// The order of what a search finds: pages whose name or title has the words first, and how-tos before explanations.
// Sphinx puts this into its search.

var Scorer = {
  score(result) {
    const [page, title, anchor, , score] = result;
    const words = (new URLSearchParams(window.location.search).get("q") || "").toLowerCase().split(/[^\p{L}\p{N}]+/u);
    const asked = words.filter((word) => word.length > 1).map((word) => word.replace(/(?<=..)s$/, ""));
    const about = `${page.split("/").slice(-2).join(" ")} ${anchor ? "" : title}`.toLowerCase();
    const share = asked.length ? asked.filter((word) => about.includes(word)).length / asked.length : 0;
    const kinds = {"how-to": 5, tutorial: 4, reference: 3, explanation: -3, errors: 6};
    return score + 20 * share + (kinds[page.split("/")[0]] || 0) - (page === "index" ? 10 : 0);
  },

  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: {0: 15, 1: 5, 2: -5},
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
