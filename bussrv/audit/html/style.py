"""How a report looks: on screens wide and narrow, light and dark, and on paper."""

STYLE = """
:root {
  color-scheme:light dark; --paper:#fcfcfa; --panel:#f3f4f1; --ink:#1b1f24; --soft:#565f69; --rule:#d8dbd6;
  --accent:#175a86; --error:#a61b1b; --error-bg:#fbecea; --warning:#744b00; --warning-bg:#fcf2da;
  --notice:#175a86; --notice-bg:#e8f1f8; --clean:#0a6049; --clean-bg:#e5f3ed; --one:#2470b0; --one-soft:#c9deef;
  --two:#b8521a; --there:#2a8574; --hatch:#b8521a; --hatch-bg:#fbeee4;
}
@media (prefers-color-scheme:dark) {
  :root {
    --paper:#14171a; --panel:#1d2125; --ink:#e4e7ea; --soft:#a6afb8; --rule:#363c43; --accent:#84bfea;
    --error:#ff9d93; --error-bg:#371b1a; --warning:#efc05f; --warning-bg:#30270f; --notice:#8fc5ee;
    --notice-bg:#15283a; --clean:#6fd3b5; --clean-bg:#122d26; --one:#5eabe6; --one-soft:#22435c; --two:#f0935a;
    --there:#4cab9b; --hatch:#f0935a; --hatch-bg:#35241a;
  }
}
* { box-sizing:border-box }
html { -webkit-text-size-adjust:100%; scroll-padding-top:1rem }
body {
  margin:0 auto; padding:0 1.5rem 3rem; max-width:76rem; background:var(--paper); color:var(--ink);
  font:1rem/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans","Liberation Sans",sans-serif;
  overflow-wrap:break-word;
}
bdi,code { overflow-wrap:anywhere }
a { color:var(--accent); text-underline-offset:.15em }
:focus-visible { outline:3px solid var(--accent); outline-offset:2px; border-radius:2px }
.skip { position:absolute; left:-99rem }
.skip:focus { left:1rem; top:.5rem; background:var(--paper); padding:.3rem .6rem; z-index:9 }
code { font:.92em/1.4 ui-monospace,"Cascadia Mono","SF Mono",Menlo,Consolas,"Liberation Mono",monospace }
small { font-size:.8125rem; color:var(--soft); font-weight:400 }
h1,h2,h3,h4,p,dl,dd,ul,figure { margin:0; padding:0 }
h2 {
  font-size:1.5rem; line-height:1.25; letter-spacing:-.01em; margin:0 0 .75rem; padding-top:1.25rem;
  border-top:2px solid var(--ink);
}
h3 { font-size:1.0625rem; margin:2rem 0 .4rem }
.brand {
  display:flex; justify-content:space-between; flex-wrap:wrap; gap:.25rem 2rem; padding:1.1rem 0 .9rem;
  color:var(--soft); font-size:.875rem;
}
.brand b { color:var(--ink); letter-spacing:.02em }
.hint,.more { color:var(--soft); font-size:.9375rem; max-width:46rem; margin:.2rem 0 .8rem }
.nothing {
  color:var(--soft); padding:.5rem .9rem; border-left:3px solid var(--rule); max-width:46rem; margin:.4rem 0;
}
.none { color:var(--soft) }
.odd {
  font:.8em ui-monospace,monospace; border:1px solid var(--warning); color:var(--warning); border-radius:2px;
  padding:0 .15em; margin:0 .1em;
}
.icon { width:1.15em; height:1.15em; flex:none; vertical-align:-.2em }
.icon path { fill:none; stroke:currentColor; stroke-width:2; stroke-linejoin:round; stroke-linecap:round }
.verdict {
  border-radius:6px; padding:1.6rem 1.75rem 1.5rem; border-left:.5rem solid var(--soft); background:var(--panel);
}
.verdict.error { background:var(--error-bg); border-color:var(--error) }
.verdict.warning { background:var(--warning-bg); border-color:var(--warning) }
.verdict.clean { background:var(--clean-bg); border-color:var(--clean) }
h1 {
  display:flex; gap:.6rem; align-items:center; font-size:2.5rem; line-height:1.1; letter-spacing:-.02em;
  color:var(--soft);
}
@media (min-width:62rem) {
  .verdict { display:grid; grid-template-columns:minmax(0,1fr) auto; gap:0 3rem }
  .verdict>* { grid-column:1 }
  .verdict>.tiles { grid-column:2; grid-row:1/span 3; flex-direction:column; align-self:center; margin:0 }
}
h1 .icon { width:1em; height:1em }
.error>h1,.severity.error>h3 { color:var(--error) }
.warning>h1,.severity.warning>h3 { color:var(--warning) }
.clean>h1 { color:var(--clean) }
.severity.notice>h3 { color:var(--notice) }
.lead { font-size:1.1875rem; line-height:1.45; margin:.7rem 0 .35rem; max-width:44rem }
.trust { max-width:44rem; color:var(--soft) }
.tiles { display:flex; flex-wrap:wrap; gap:.75rem; margin-top:1.15rem }
.tile {
  display:flex; align-items:center; gap:.5rem; padding:.45rem .9rem .45rem .7rem; border-radius:5px;
  background:var(--paper); border:1px solid currentColor; text-decoration:none; min-width:8.5rem;
}
.tile b { font-size:1.25rem; font-variant-numeric:tabular-nums }
.tile span { font-size:.9375rem }
.tile:hover span { text-decoration:underline }
.tile.error { color:var(--error) }
.tile.warning { color:var(--warning) }
.tile.notice { color:var(--notice) }
.tile.zero { color:var(--soft); border-color:var(--rule); background:none }
.audited {
  display:grid; grid-template-columns:repeat(auto-fit,minmax(11rem,1fr)); gap:1rem 1.75rem; margin:1.5rem 0;
}
.audited dt { font-size:.8125rem; color:var(--soft) }
.audited b {
  display:block; font-size:1.1875rem; line-height:1.35; font-weight:600; font-variant-numeric:tabular-nums;
}
.audited span { display:block; font-size:.875rem; color:var(--soft); line-height:1.4 }
nav { border-top:1px solid var(--rule); border-bottom:1px solid var(--rule); padding:.6rem 0; margin:0 0 2rem }
nav ul { display:flex; flex-wrap:wrap; gap:.25rem 1.5rem; list-style:none }
nav a { text-decoration:none; padding:.15rem 0; display:inline-block }
nav a:hover { text-decoration:underline }
nav small { margin-left:.3rem }
.chapter { margin:0 0 3rem }
.severity>h3 { display:flex; align-items:center; gap:.5rem; font-size:1.25rem; margin-top:1.75rem }
.severity>h3 small,h4 small {
  background:var(--panel); color:var(--ink); border-radius:99px; padding:.05rem .55rem;
  font-variant-numeric:tabular-nums;
}
.kind { border-left:3px solid var(--rule); padding-left:1rem; margin:1rem 0 1.5rem }
.error>.kind { border-color:var(--error) }
.warning>.kind { border-color:var(--warning) }
.notice>.kind { border-color:var(--notice) }
summary { cursor:pointer }
h4 { display:inline; font-size:1rem }
h4 code { font-weight:400; color:var(--soft); margin:0 .35rem }
.meaning { max-width:46rem; margin:.35rem 0 .5rem; color:var(--soft) }
table { border-collapse:collapse; min-width:min(100%,40rem); max-width:100%; margin:.25rem 0 .75rem }
table { font-size:.9063rem }
.full { width:100% }
caption { text-align:left; color:var(--soft); font-size:.875rem; padding:.1rem 0 .4rem; max-width:46rem }
.findings caption { position:absolute; width:1px; height:1px; overflow:hidden; clip-path:inset(50%) }
th,td {
  text-align:left; vertical-align:top; padding:.38rem 1.5rem .38rem 0; border-bottom:1px solid var(--rule);
  font-weight:400; max-width:26rem;
}
tr>:last-child { padding-right:0 }
thead th {
  color:var(--soft); font-size:.8125rem; vertical-align:bottom; border-bottom:1px solid var(--soft);
  white-space:nowrap;
}
thead button { font:inherit; color:inherit; background:none; border:0; padding:0; cursor:pointer }
thead button { position:relative }
thead button::after { content:""; position:absolute; left:100%; padding-left:.15em }
th[aria-sort=ascending] button::after { content:"\\2191" }
th[aria-sort=descending] button::after { content:"\\2193" }
thead button:hover { color:var(--ink); text-decoration:underline }
tbody th small,tbody td small { display:block }
.number { text-align:right; font-variant-numeric:tabular-nums; white-space:nowrap }
.when { white-space:nowrap; font-variant-numeric:tabular-nums }
.place { white-space:nowrap }
.place small { white-space:normal }
.findings .place { width:12rem }
.place code { font-weight:600 }
td.name,th.name { min-width:6.5rem }
td.wide { min-width:11rem }
.full td.wide { max-width:none }
td.bar { width:24%; min-width:6rem; font-size:0; padding-top:.6rem }
.part { display:inline-block; height:.8rem; min-width:2px; background:var(--one) }
.part.two {
  background:repeating-linear-gradient(135deg,var(--two) 0 2px,transparent 2px 5px); border:1px solid var(--two);
}
.two { display:grid; grid-template-columns:repeat(auto-fit,minmax(min(100%,26rem),1fr)); gap:0 2.5rem }
.part.two { display:inline-block }
figure { margin:.9rem 0 1.2rem; break-inside:avoid }
figcaption { display:flex; flex-wrap:wrap; gap:.1rem .75rem; font-size:.9375rem; margin-bottom:.25rem }
figcaption span { color:var(--soft) }
.chart { position:relative; padding-left:4.5rem }
.chart svg { height:5.5rem }
.mirrored svg { height:8.5rem }
svg { display:block; width:100% }
.edges span,.edges small { display:block; line-height:1.15 }
.edges {
  position:absolute; left:0; top:0; width:4rem; height:5.5rem; display:flex; flex-direction:column;
  justify-content:space-between; text-align:right; font-size:.8125rem; line-height:1; color:var(--soft);
  font-variant-numeric:tabular-nums;
}
.mirrored .edges { height:8.5rem }
.plot { position:relative }
.chart .plot { border-bottom:1px solid var(--soft) }
.mirrored .plot { border:0 }
.small { margin:.7rem 0 }
.plot path { vector-effect:non-scaling-stroke }
.grid { fill:none; stroke:var(--rule); stroke-width:1 }
.area { fill:var(--one-soft) }
.line { fill:none; stroke:var(--one); stroke-width:1.75; stroke-linejoin:round }
.above { fill:var(--one) }
.below { fill:var(--two) }
.middle { fill:none; stroke:var(--soft); stroke-width:1 }
.times {
  position:relative; height:2.2rem; font-size:.8125rem; line-height:1.15; color:var(--soft);
  font-variant-numeric:tabular-nums; margin-top:.25rem;
}
.tick { position:absolute; top:0; transform:translateX(-50%); white-space:nowrap; text-align:center }
.tick small { display:block; font-size:.75rem }
.tick.start { transform:none; text-align:left }
.tick.end { transform:translateX(-100%); text-align:right }
.lane { background:repeating-linear-gradient(135deg,var(--hatch) 0 1.5px,var(--hatch-bg) 1.5px 5px) }
.lane svg { height:22px; shape-rendering:crispEdges }
.there { fill:var(--there) }
.blank { fill:var(--paper) }
.lane { outline:1px solid var(--rule) }
.mark {
  position:absolute; top:50%; transform:translate(-50%,-50%); color:var(--error); font-weight:700;
  font-size:.8125rem; line-height:1; background:var(--paper); border-radius:2px; padding:.05rem .12rem;
}
.with-lanes td.lanes { width:58%; max-width:none; padding-top:.45rem }
tfoot td { border:0; padding-top:0 }
.behind summary,.kind summary { padding:.1rem 0 }
.behind { font-size:.9375rem; color:var(--soft) }
.behind table { color:var(--ink); max-width:52rem }
.readout {
  position:absolute; z-index:2; bottom:100%; background:var(--ink); color:var(--paper); font-size:.8125rem;
  line-height:1.35; padding:.25rem .5rem; border-radius:4px; pointer-events:none; white-space:nowrap;
  margin-bottom:.2rem;
}
.cursor { position:absolute; top:0; bottom:0; width:1px; background:var(--ink); pointer-events:none }
.finder label { display:flex; flex-wrap:wrap; align-items:center; gap:.3rem .75rem; flex:0 1 auto }
.finder {
  display:flex; flex-wrap:wrap; align-items:center; gap:.5rem 1.25rem; margin:.5rem 0 1rem; font-size:.9375rem;
}
.finder input[type=search] {
  font:inherit; color:inherit; background:var(--panel); border:1px solid var(--soft); border-radius:4px;
  padding:.3rem .6rem; width:22rem; max-width:100%;
}
.words { display:grid; grid-template-columns:repeat(auto-fit,minmax(min(100%,22rem),1fr)); gap:.6rem 2.5rem }
.words dt { font-weight:600 }
.words dd { color:var(--soft) }
footer { border-top:1px solid var(--rule); padding-top:1rem; color:var(--soft); font-size:.875rem }
footer p { max-width:46rem }
@media (max-width:44rem) {
  body { padding:0 1rem 2rem; font-size:.9688rem }
  .verdict { padding:1.1rem 1.1rem 1.2rem; border-left-width:.35rem }
  h1 { font-size:2rem }
  .lead { font-size:1.0625rem }
  .tiles { gap:.5rem }
  .tile { flex:1 1 100% }
  .audited { grid-template-columns:repeat(2,minmax(0,1fr)); gap:1rem }
  .audited>:first-child { grid-column:1/-1 }
  nav ul { display:grid; grid-template-columns:1fr 1fr; gap:.1rem 1rem }
  .kind { padding-left:.7rem }
  .cards,.cards tbody,.cards tr,.cards th,.cards td,.cards caption { display:block; max-width:none }
  .cards thead { display:none }
  .cards tr { padding:.55rem 0; border-bottom:1px solid var(--rule) }
  .cards tbody th,.cards tbody td {
    border:0; padding:.08rem 0; text-align:left; white-space:normal; width:auto; min-width:0;
  }
  .cards tbody th { font-weight:600 }
  .cards tbody th small { font-weight:400 }
  .cards td[data-label] { display:grid; grid-template-columns:7.5rem minmax(0,1fr); gap:0 .75rem }
  .cards td[data-label]::before { content:attr(data-label); color:var(--soft); font-size:.8125rem; line-height:1.75 }
  .cards td small { grid-column:2 }
  .cards td.empty { display:none }
  .cards td.wide { display:block }
  .cards td.wide::before { display:none }
  .cards td.bar { padding:.3rem 0 }
  .cards td.lanes { display:block; width:100%; padding:.35rem 0 .2rem }
  .cards td.lanes::before { display:none }
  .with-lanes td.number { display:inline-grid; grid-template-columns:auto auto; margin-right:1.5rem }
  .cards tfoot,.cards tfoot tr { display:block }
  .cards tfoot td { display:none }
  .cards tfoot td.lanes { display:block }
  .chart { padding-left:0 }
  .edges { position:static; height:auto!important; width:auto; flex-direction:row; margin-bottom:.3rem }
  .tick.minor { display:none }
  .behind table { font-size:.875rem }
}
@media print {
  :root {
    --paper:#fff; --panel:#f3f4f1; --ink:#000; --soft:#454c54; --rule:#c4c8c2; --accent:#0d4468; --error:#961515;
    --error-bg:#fff; --warning:#664200; --warning-bg:#fff; --notice:#0d4468; --notice-bg:#fff; --clean:#085440;
    --clean-bg:#fff; --one:#2470b0; --one-soft:#c9deef; --two:#b8521a; --there:#2a8574; --hatch:#b8521a;
    --hatch-bg:#fbeee4; color-scheme:light;
  }
  @page { margin:16mm 14mm }
  html { font-size:10.5pt }
  body { padding:0; max-width:none }
  nav,.skip,.finder,.behind,.readout,.cursor,.brand span:empty { display:none }
  .plot,.part,.mark,.lane { print-color-adjust:exact; -webkit-print-color-adjust:exact }
  .verdict { border:1px solid var(--rule); border-left:.5rem solid }
  .verdict.error { border-color:var(--error) }
  .verdict.clean { border-color:var(--clean) }
  .verdict.warning { border-color:var(--warning) }
  .chapter { margin-bottom:1.5rem }
  h2,h3,h4,summary,caption,.hint,.meaning { break-after:avoid }
  tr,figure,.verdict,.audited>div,.words>div { break-inside:avoid }
  thead { display:table-header-group }
  tfoot { display:table-row-group }
  table { font-size:8.5pt }
  th,td { padding-right:.6rem }
  .when { white-space:normal; min-width:4.6rem }
  td.bar { width:16% }
  thead button { display:contents }
  thead button::after { display:none }
  caption { break-inside:avoid }
  a { color:inherit; text-decoration:none }
  summary { list-style:none }
}
"""
