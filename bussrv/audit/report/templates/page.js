(function(){
"use strict";
var main=document.querySelector("main");
function all(what,where){return Array.from((where||document).querySelectorAll(what))}
function make(tag,kind,text){
  var made=document.createElement(tag);
  made.className=kind;made.textContent=text||"";
  return made;
}

// Tables: all rows of a list, of which some are shown at a time. Later rows wait in a template after the table.
var SIZE=20;
function List(table){
  var later=table.nextElementSibling,list=this;
  this.table=table;this.body=table.tBodies[0];this.begin=0;this.kept=function(){return true};
  this.rows=Array.from(this.body.rows);
  if(later&&later.matches("template.later")){
    this.rows=this.rows.concat(all("tr",document.importNode(later.content,true)));
    this.pager=make("p","pager");this.said=make("span","");this.said.setAttribute("role","status");
    this.back=turn("Previous",-SIZE);this.pager.append(this.said);this.on=turn("Next",SIZE);
    later.after(this.pager);
    var of=this.pager.nextElementSibling;
    this.all=of&&of.matches(".more")?of.matches(".paged")?of:of.querySelector(".of"):null;
    this.show();
  }
  function turn(text,by){
    var button=make("button","",text);button.type="button";
    button.setAttribute("aria-label",text+" rows: "+table.caption.textContent);
    button.addEventListener("click",function(){list.begin+=by;list.show()});
    list.pager.append(button);
    return button;
  }
}
List.prototype.found=function(){return this.rows.filter(this.kept)};
List.prototype.show=function(){
  var found=this.found(),end;
  if(!this.pager){
    this.rows.forEach(function(row){row.hidden=found.indexOf(row)<0});
    return;
  }
  this.begin=Math.max(0,Math.min(this.begin,Math.floor((found.length-1)/SIZE)*SIZE));
  end=Math.min(found.length,this.begin+SIZE);
  this.body.replaceChildren.apply(this.body,found.slice(this.begin,end));
  this.said.textContent=(end?this.begin+1:0)+" to "+end+" of "+found.length+" rows in this page ";
  this.back.disabled=this.begin===0;this.on.disabled=end===found.length;
  if(this.all)this.all.hidden=true;
};
var lists=all("table.rows").filter(function(table){return !table.closest(".behind")}).map(function(table){
  return new List(table);
});

// Sorting: a button in the heads of columns that have something to be sorted by.
lists.forEach(function(list){
  if(list.rows.length<2)return;
  all("thead th",list.table).forEach(function(head,at){
    if(list.rows.every(function(row){return row.cells[at].dataset.key===undefined}))return;
    var button=make("button","",head.textContent);button.type="button";
    head.textContent="";head.appendChild(button);
    button.addEventListener("click",function(){sort(list,head,at)});
  });
});
function sort(list,head,at){
  var down=head.getAttribute("aria-sort")==="ascending"?-1:1;
  all("th[aria-sort]",list.table).forEach(function(each){each.removeAttribute("aria-sort")});
  head.setAttribute("aria-sort",down>0?"ascending":"descending");
  list.rows.sort(function(one,other){
    var a=one.cells[at].dataset.key,b=other.cells[at].dataset.key;
    if(a===undefined||b===undefined)return (a===undefined)-(b===undefined);
    return down*(a!==""&&b!==""&&!isNaN(a)&&!isNaN(b)?a-b:a.localeCompare(b));
  });
  list.begin=0;
  if(list.pager)list.show();else list.rows.forEach(function(row){list.body.appendChild(row)});
}

// Finding: rows of findings that have what is typed.
var kinds=all("details.kind"),about=lists.filter(function(list){return list.table.matches(".findings")});
var listed=about.reduce(function(sum,list){return sum+list.rows.length},0);
if(listed>5){
  var finder=make("p","finder"),label=make("label","","Show only findings with "),box=make("input","");
  var said=make("span","");said.setAttribute("role","status");
  box.type="search";label.appendChild(box);finder.appendChild(label);finder.appendChild(said);
  document.querySelector(".severity").before(finder);
  box.addEventListener("input",function(){
    var wanted=box.value.toLowerCase(),count=0;
    kinds.forEach(function(kind){
      var named=kind.querySelector("summary").textContent.toLowerCase().indexOf(wanted)>=0,here=0;
      about.forEach(function(list){
        if(!kind.contains(list.table))return;
        list.kept=function(row){return named||row.textContent.toLowerCase().indexOf(wanted)>=0};
        list.begin=0;list.show();here+=list.found().length;
      });
      kind.hidden=wanted!==""&&!here&&!named;count+=here;
    });
    said.textContent=wanted?count+" of "+listed+" that are listed here":"";
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
