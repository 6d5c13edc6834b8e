(function(){
"use strict";
var main=document.querySelector("main");
function all(what,where){return Array.from((where||document).querySelectorAll(what))}
function make(tag,kind,text){
  var made=document.createElement(tag);
  made.className=kind;made.textContent=text||"";
  return made;
}

// Sorting: a button in the heads of columns that have something to be sorted by.
all("table.rows").forEach(function(table){
  if(table.closest(".behind")||table.tBodies[0].rows.length<2)return;
  all("thead th",table).forEach(function(head,at){
    var keys=all("tbody tr",table).map(function(row){return row.cells[at].dataset.key});
    if(keys.every(function(key){return key===undefined}))return;
    var button=make("button","",head.textContent);button.type="button";
    head.textContent="";head.appendChild(button);
    button.addEventListener("click",function(){sort(table,head,at)});
  });
});
function sort(table,head,at){
  var down=head.getAttribute("aria-sort")==="ascending"?-1:1,body=table.tBodies[0];
  all("th[aria-sort]",table).forEach(function(each){each.removeAttribute("aria-sort")});
  head.setAttribute("aria-sort",down>0?"ascending":"descending");
  Array.from(body.rows).sort(function(one,other){
    var a=one.cells[at].dataset.key,b=other.cells[at].dataset.key;
    if(a===undefined||b===undefined)return (a===undefined)-(b===undefined);
    return down*(a!==""&&b!==""&&!isNaN(a)&&!isNaN(b)?a-b:a.localeCompare(b));
  }).forEach(function(row){body.appendChild(row)});
}

// Finding: rows of findings that have what is typed.
var kinds=all("details.kind"),shown=all(".findings tbody tr").length;
if(shown>5){
  var finder=make("p","finder"),label=make("label","","Show only findings with "),box=make("input","");
  var said=make("span","");said.setAttribute("role","status");
  box.type="search";label.appendChild(box);finder.appendChild(label);finder.appendChild(said);
  document.querySelector(".severity").before(finder);
  box.addEventListener("input",function(){
    var wanted=box.value.toLowerCase(),count=0;
    kinds.forEach(function(kind){
      var here=0,named=kind.querySelector("summary").textContent.toLowerCase().indexOf(wanted)>=0;
      all("tbody tr",kind).forEach(function(row){
        row.hidden=!named&&row.textContent.toLowerCase().indexOf(wanted)<0;
        here+=!row.hidden;
      });
      kind.hidden=wanted!==""&&!here&&!named;count+=here;
    });
    said.textContent=wanted?count+" of "+shown+" that are listed here":"";
  });
}

// What is under the pointer.
var origin=Number(main.dataset.origin),width=Number(main.dataset.width);
function time(micros){return new Date(micros/1000).toISOString().replace("T"," ").slice(0,width<6e7?23:16)}
all(".plot[data-values]").forEach(function(plot){
  var series=plot.dataset.values.split(";").map(function(each){return each.split(",")});
  var names=plot.dataset.names.split(";"),box=make("div","readout"),line=make("div","cursor");
  function hide(){box.remove();line.remove()}
  plot.addEventListener("pointermove",function(event){
    var area=plot.getBoundingClientRect(),steps=series[0].length;
    var at=Math.min(steps-1,Math.max(0,Math.floor((event.clientX-area.left)/area.width*steps)));
    var begin=origin+at*width;
    box.textContent=time(begin)+" to "+time(begin+width).slice(11)+" UTC: "+series.map(function(values,which){
      return values[at]===""?"not known":values[at]+" "+names[which]}).join(", ");
    var place=(at+.5)/steps;
    line.style.left=100*place+"%";
    box.style.left=place<.5?100*place+"%":"";box.style.right=place<.5?"":100*(1-place)+"%";
    plot.appendChild(line);plot.appendChild(box);
  });
  plot.addEventListener("pointerleave",hide);
});
})();
