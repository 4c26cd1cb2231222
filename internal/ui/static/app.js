// The script of the pages. They can be read without it; with it they follow the cluster, the time axis can be zoomed,
// and commands can be copied. In a report it also shows the pages, which are compressed in the file.
'use strict';
(() => {
  const main = document.getElementById('main');
  const said = document.getElementById('said');
  const say = (text) => { said.textContent = text; };
  const all = (where, selector) => Array.from(where.querySelectorAll(selector));

  // morph turns a node into another one and keeps what stays: focus, selection, and what was unfolded. Nodes with
  // data-own are filled by this script.
  const morph = (from, to) => {
    if (from.nodeType !== to.nodeType || from.nodeName !== to.nodeName || (from.id || '') !== (to.id || '')) {
      from.replaceWith(to.cloneNode(true));
      return;
    }
    if (from.nodeType !== Node.ELEMENT_NODE) {
      if (from.data !== to.data) from.data = to.data;
      return;
    }
    if (from.hasAttribute('data-own')) return;
    for (const {name, value} of Array.from(to.attributes)) {
      if (from.getAttribute(name) !== value) from.setAttribute(name, value);
    }
    for (const {name} of Array.from(from.attributes)) {
      if (!to.hasAttribute(name) && name !== 'open') from.removeAttribute(name);
    }
    const byID = new Map(Array.from(from.children).filter((c) => c.id).map((c) => [c.id, c]));
    let at = from.firstChild;
    for (const next of Array.from(to.childNodes)) {
      const known = next.id && byID.get(next.id);
      if (known && known !== at) from.insertBefore(known, at);
      const now = known || at;
      if (!now || (now.id && !known && to.querySelector('#' + CSS.escape(now.id)))) {
        from.insertBefore(next.cloneNode(true), at);
        continue;
      }
      at = now.nextSibling;
      morph(now, next);
    }
    while (at) {
      const next = at.nextSibling;
      at.remove();
      at = next;
    }
  };

  // A plot shows a window of the life: bars have data-f and data-t, in milliseconds after the begin.
  const windows = new WeakMap();
  const took = (ms) => {
    const s = ms / 1000;
    if (Math.abs(ms) < 1000) return Math.round(ms) + ' ms';
    if (s < 60) return s.toFixed(1) + ' s';
    if (s < 3600) return Math.floor(s / 60) + ' min ' + Math.floor(s % 60) + ' s';
    if (s < 172800) return Math.floor(s / 3600) + ' h ' + Math.floor(s / 60 % 60) + ' min';
    return Math.floor(s / 86400) + ' d ' + Math.floor(s / 3600 % 24) + ' h';
  };
  const steps = [1, 5, 10, 50, 100, 500, 1e3, 5e3, 1e4, 3e4, 6e4, 3e5, 9e5, 36e5, 216e5, 864e5, 6048e5, 2592e6, 31536e6];
  const svgNode = (name, attributes) => {
    const node = document.createElementNS('http://www.w3.org/2000/svg', name);
    for (const key in attributes) node.setAttribute(key, attributes[key]);
    return node;
  };
  const draw = (plot) => {
    const w = windows.get(plot);
    const span = w.to - w.from;
    const place = (ms) => Math.max(-100, Math.min(100, (ms - w.from) / span)) * 100;
    for (const bar of all(plot, '.bar')) {
      const x = place(+bar.dataset.f);
      for (const rect of all(bar, 'rect, svg')) {
        rect.setAttribute('x', x + '%');
        rect.setAttribute('width', Math.max(0, place(+bar.dataset.t) - x) + '%');
      }
    }
    const ticks = plot.querySelector('.ticks');
    ticks.textContent = '';
    const step = steps.find((s) => span / s <= 5) || steps[steps.length - 1];
    for (let at = Math.ceil(w.from / step) * step; at <= w.to; at += step) {
      const x = place(at) + '%';
      ticks.append(svgNode('line', {x1: x, x2: x, y1: 16, y2: '100%'}));
      const text = svgNode('text', {x, y: 12});
      text.textContent = '+' + took(at);
      ticks.append(text);
    }
    const cursor = plot.querySelector('.cursor');
    const x = w.cursor === undefined ? '-1%' : place(w.cursor) + '%';
    cursor.setAttribute('x1', x);
    cursor.setAttribute('x2', x);
    plot.querySelector('.window').textContent = took(span) + ' shown, from +' + took(w.from);
  };
  const show = (plot, from, to) => {
    const w = windows.get(plot);
    const whole = +plot.dataset.whole;
    const span = Math.min(Math.max(to - from, 2), whole * 1.1 + 2);
    const start = Math.max(-span / 20, Math.min(from, whole - span * 0.95));
    w.from = start;
    w.to = start + span;
    draw(plot);
  };
  const zoom = (plot, factor, around) => {
    const w = windows.get(plot);
    const at = w.from + (w.to - w.from) * around;
    show(plot, at - (at - w.from) * factor, at + (w.to - at) * factor);
  };
  const pan = (plot, share) => {
    const w = windows.get(plot);
    const by = (w.to - w.from) * share;
    show(plot, w.from + by, w.to + by);
  };
  const act = (plot, what) => {
    switch (what) {
      case 'in': return zoom(plot, 0.5, 0.5);
      case 'out': return zoom(plot, 2, 0.5);
      case 'left': return pan(plot, -0.3);
      case 'right': return pan(plot, 0.3);
      case 'whole': return show(plot, 0, +plot.dataset.whole);
    }
  };
  // choose shows an interval below the drawing; a phase becomes the window.
  const choose = (bar) => {
    const plot = bar.closest('.plot');
    const row = document.getElementById(bar.getAttribute('href').slice(1));
    for (const other of all(plot, '.bar[aria-current]')) other.removeAttribute('aria-current');
    bar.setAttribute('aria-current', 'true');
    if (bar.classList.contains('phase')) {
      const f = +bar.dataset.f, t = +bar.dataset.t, margin = Math.max(1, (t - f) / 20);
      show(plot, f - margin, t + margin);
      say('Shown: ' + bar.getAttribute('aria-label'));
      return;
    }
    const detail = plot.parentElement.querySelector('.detail');
    detail.setAttribute('data-own', '');
    detail.replaceChildren();
    const title = document.createElement('h3');
    title.textContent = bar.getAttribute('aria-label');
    detail.append(title, row.querySelector('.inner').cloneNode(true));
    say('Below the time axis: ' + bar.getAttribute('aria-label'));
  };
  const setUpPlots = () => {
    for (const plot of all(main, '.plot')) {
      if (!windows.has(plot)) windows.set(plot, {from: +plot.dataset.from, to: +plot.dataset.to});
      draw(plot);
    }
  };

  // The slider shows what was at a time.
  const sliderTime = (form) => new Date(Date.parse(form.dataset.from) + 1000 * form.querySelector('#after').value);
  const moved = (form) => {
    form.setAttribute('data-own', '');
    const at = sliderTime(form);
    form.querySelector('#aftertext').textContent = at.toISOString().replace('T', ' ');
    for (const plot of all(main, '.plot')) {
      windows.get(plot).cursor = at - Date.parse(plot.dataset.begin);
      draw(plot);
    }
  };
  let asked = 0;
  const askAt = async (form) => {
    const number = ++asked;
    const part = document.getElementById('atpart');
    part.setAttribute('data-own', '');
    if (report) {
      part.textContent = 'The line in the drawing is at this time; the interval under it says what was waited for.';
      return;
    }
    const answer = await fetch('at?' + new URLSearchParams(new FormData(form)));
    const text = await answer.text();
    if (number !== asked) return;
    if (answer.ok) part.innerHTML = text;
    else part.textContent = `The server does not answer this: ${answer.status}. Load the page again.`;
  };

  document.addEventListener('click', async (event) => {
    const copy = event.target.closest('[data-copy]');
    if (copy) {
      try {
        await navigator.clipboard.writeText(copy.dataset.copy);
        say('Copied: ' + copy.dataset.copy);
      } catch {
        const range = document.createRange();
        range.selectNodeContents(copy.parentElement.querySelector('code'));
        getSelection().removeAllRanges();
        getSelection().addRange(range);
        say('The command is selected; copy it with the keyboard.');
      }
      return;
    }
    const tool = event.target.closest('[data-do]');
    if (tool) return act(tool.closest('.plot'), tool.dataset.do);
    const bar = event.target.closest('a.bar');
    if (bar) {
      event.preventDefault();
      if (!dragged) choose(bar);
    }
  });
  document.addEventListener('keydown', (event) => {
    const bar = event.target.closest && event.target.closest('a.bar');
    if (!bar || event.ctrlKey || event.metaKey || event.altKey) return;
    const plot = bar.closest('.plot');
    const bars = all(plot, 'a.bar');
    const keys = {'+': 'in', '-': 'out', '0': 'whole', '[': 'left', ']': 'right'};
    const step = {ArrowRight: 1, ArrowLeft: -1}[event.key];
    if (step) {
      const next = bars[bars.indexOf(bar) + step];
      if (next) {
        const w = windows.get(plot);
        if (+next.dataset.t < w.from || +next.dataset.f > w.to) show(plot, +next.dataset.f, +next.dataset.f + w.to - w.from);
        next.focus();
      }
    } else if (keys[event.key]) {
      act(plot, keys[event.key]);
    } else return;
    event.preventDefault();
  });
  document.addEventListener('wheel', (event) => {
    const svg = event.target.closest && event.target.closest('.plot svg');
    if (!svg || !event.ctrlKey) return;
    event.preventDefault();
    const box = svg.getBoundingClientRect();
    zoom(svg.closest('.plot'), event.deltaY > 0 ? 1.25 : 0.8, (event.clientX - box.left) / box.width);
  }, {passive: false});
  let drag = null, dragged = false;
  document.addEventListener('pointerdown', (event) => {
    const svg = event.target.closest && event.target.closest('.plot svg');
    dragged = false;
    drag = svg && event.button === 0 ? {plot: svg.closest('.plot'), x: event.clientX, width: svg.clientWidth} : null;
  });
  document.addEventListener('pointermove', (event) => {
    if (!drag || Math.abs(event.clientX - drag.x) < 4 && !dragged) return;
    dragged = true;
    pan(drag.plot, (drag.x - event.clientX) / drag.width);
    drag.x = event.clientX;
  });
  document.addEventListener('pointerup', () => { drag = null; });
  document.addEventListener('dragstart', (event) => {
    if (event.target.closest && event.target.closest('.plot')) event.preventDefault();
  });
  document.addEventListener('input', (event) => {
    if (event.target.id === 'after') moved(event.target.form);
  });
  document.addEventListener('change', (event) => {
    if (event.target.id === 'after') askAt(event.target.form);
  });
  document.addEventListener('submit', (event) => {
    if (event.target.classList.contains('slider')) {
      event.preventDefault();
      moved(event.target);
      askAt(event.target);
    }
  });

  // A part of the page that an address names is unfolded.
  const unfold = () => {
    const id = decodeURIComponent(location.hash.slice(1));
    const target = id && !id.startsWith('!') && document.getElementById(id);
    if (!target) return;
    if (target.matches('details')) target.open = true;
    target.scrollIntoView();
  };

  // Live pages ask for their main part when the cluster has changed.
  const follow = () => {
    let busy = false, again = false;
    const refresh = async () => {
      if (busy) {
        again = true;
        return;
      }
      busy = true;
      try {
        const answer = await fetch(location.pathname + location.search, {headers: {'X-Purser-Part': '1'}});
        if (answer.ok) {
          const before = document.getElementById('summary');
          const text = before && before.textContent;
          const next = document.createElement('template');
          next.innerHTML = await answer.text();
          const to = main.cloneNode(false);
          to.append(next.content);
          const focused = document.activeElement;
          if (!(focused && main.contains(focused) && focused.matches('select'))) morph(main, to);
          setUpPlots();
          const after = document.getElementById('summary');
          if (after && after.textContent !== text) say(after.textContent.trim());
        }
      } catch {
        say('The server does not answer.');
      }
      busy = false;
      if (again) {
        again = false;
        setTimeout(refresh, 500);
      }
    };
    // A tab that is not shown does not listen. What it has missed it asks for when it is shown. The first event says
    // what the state is, which may be a newer one than that of the page.
    const heard = (what) => {
      if (what === 'error') return say('The connection to the server is broken; it is tried again.');
      refresh();
    };
    let source = null, worker = null;
    const listen = () => {
      if (worker) return worker.port.postMessage('listen');
      source = new EventSource('/events');
      for (const what of ['state', 'error']) source.addEventListener(what, () => heard(what));
    };
    const rest = () => {
      if (worker) worker.port.postMessage('rest');
      if (source) source.close();
      source = null;
    };
    if (window.SharedWorker) {
      worker = new SharedWorker('/events.js');
      worker.port.onmessage = ({data}) => heard(data);
      worker.addEventListener('error', () => { // the browser does not run it
        worker = null;
        if (!document.hidden) listen();
      });
    }
    document.addEventListener('visibilitychange', () => {
      rest();
      if (!document.hidden) listen();
    });
    addEventListener('pagehide', rest);
    addEventListener('pageshow', ({persisted}) => {
      if (persisted && !document.hidden) listen();
    });
    if (!document.hidden) listen();
  };

  // Files that are dropped on a page are opened, as if they were chosen in the form.
  if (document.querySelector('nav a[href="/open"]')) {
    const over = (on) => (event) => {
      if (!event.dataTransfer || !event.dataTransfer.types.includes('Files')) return;
      event.preventDefault();
      document.body.classList.toggle('dropping', on);
    };
    document.addEventListener('dragover', over(true));
    document.addEventListener('dragleave', over(false));
    document.addEventListener('drop', async (event) => {
      over(false)(event);
      if (event.dataTransfer.files.length === 0) return;
      const form = new FormData();
      for (const file of event.dataTransfer.files) form.append('file', file);
      const answer = await fetch('/open', {method: 'POST', body: form});
      if (answer.redirected) location.assign(answer.url);
      else main.innerHTML = (new DOMParser().parseFromString(await answer.text(), 'text/html')).getElementById('main').innerHTML;
    });
  }

  // A report has its pages in the file: compressed HTML, by address.
  const data = document.getElementById('pages');
  const report = data !== null;
  const openReport = async () => {
    const packed = Uint8Array.from(atob(data.textContent.trim()), (c) => c.charCodeAt(0));
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream('gzip'));
    const pages = JSON.parse(await new Response(stream).text());
    const route = () => {
      const address = location.hash.startsWith('#!') ? location.hash.slice(2) : '';
      if (location.hash && !address) return unfold();
      const page = pages[address] || pages[decodeURIComponent(address)] || pages.board;
      main.innerHTML = page;
      setUpPlots();
      const title = main.querySelector('h1');
      if (title) document.title = title.textContent + ' – Purser';
      for (const link of all(document, 'nav a')) {
        if (link.getAttribute('href') === '#!' + (address || 'board')) link.setAttribute('aria-current', 'page');
        else link.removeAttribute('aria-current');
      }
      if (address) {
        main.focus();
        scrollTo(0, 0);
      }
    };
    addEventListener('hashchange', route);
    if (location.hash.startsWith('#!')) route();
  };

  addEventListener('hashchange', unfold);
  setUpPlots();
  unfold();
  if (main.hasAttribute('data-live')) follow();
  if (report) openReport();
  document.documentElement.setAttribute('data-ready', '');
})();
