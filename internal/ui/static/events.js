// The worker that the tabs of one browser share. It holds the one connection by which they hear of newer states: a
// browser has six for one server.
'use strict';
const tabs = new Set();
let source = null;
const listen = () => {
  source = new EventSource('/events');
  for (const what of ['state', 'error']) {
    source.addEventListener(what, () => { for (const tab of tabs) tab.postMessage(what); });
  }
};
addEventListener('connect', ({ports: [tab]}) => {
  tab.addEventListener('message', ({data}) => {
    if (data === 'listen') {
      tabs.add(tab);
      if (!source || source.readyState === EventSource.CLOSED) listen(); // refused: the tab may have a newer cookie
      else if (source.readyState === EventSource.OPEN) tab.postMessage('state'); // as the server does at the begin
    } else {
      tabs.delete(tab);
      if (tabs.size > 0 || !source) return;
      source.close();
      source = null;
    }
  });
  tab.start();
});
