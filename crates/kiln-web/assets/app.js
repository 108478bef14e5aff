// Which page is shown, and that it shows the present.

import { setText } from './dom.js';
import { elastic } from './elastic.js';
import { events } from './events.js';
import { health } from './health.js';
import { history, job } from './history.js';
import { image, images } from './images.js';
import { jobs } from './jobs.js';
import { limits, scheduler } from './limits.js';
import { ask, change, connect, onChange, onSign, state } from './live.js';
import { node, nodes } from './nodes.js';
import { overview } from './overview.js';
import { rollout, rollouts } from './rollouts.js';

const main = document.getElementById('main');
let page = null;

// The address behind the #: /nodes/NAME?query
function pageOf(hash) {
  const [path, query = ''] = hash.replace(/^#/, '').split('?');
  const [, name = '', what] = path.split('/');
  const chosen = new URLSearchParams(query);
  switch (name) {
    case 'nodes': return what ? node(decodeURIComponent(what)) : nodes(chosen);
    case 'jobs': return jobPage(what, chosen);
    case 'rollouts': return what ? rollout(Number(what)) : rollouts();
    case 'images': return what ? image(decodeURIComponent(what)) : images();
    case 'elastic': return elastic();
    case 'health': return health();
    case 'events': return events(chosen);
    default: return overview();
  }
}

function jobPage(what, chosen) {
  switch (what) {
    case undefined: case '': return jobs(chosen);
    case 'history': return history(chosen);
    case 'limits': return limits();
    case 'scheduler': return scheduler();
    default: return job(decodeURIComponent(what));
  }
}

function turn() {
  if (location.hash === '#main') return;
  const isFirst = page === null;
  page = pageOf(location.hash);
  main.replaceChildren(page.element);
  document.title = `${page.title} - ${state.session.cluster}`;
  const section = `#/${location.hash.replace(/^#\/?/, '').split(/[/?]/)[0]}`;
  for (const link of document.querySelectorAll('nav a')) {
    if (link.getAttribute('href') === section) link.setAttribute('aria-current', 'page');
    else link.removeAttribute('aria-current');
  }
  if (state.overview) page.show();
  // A screen reader goes on with the new page.
  if (!isFirst) {
    main.focus({ preventScroll: true });
    scrollTo(0, 0);
  }
}

// Several messages in a row are drawn once.
let isDue = false;
function draw() {
  if (isDue) return;
  isDue = true;
  requestAnimationFrame(() => {
    isDue = false;
    const began = performance.now();
    page.show();
    main.dataset.drawn = String(Number(main.dataset.drawn ?? 0) + 1);
    performance.measure('kiln-draw', { start: began, end: performance.now() });
  });
}

async function begin() {
  state.session = await ask('/api/v1/session');
  setText(document.getElementById('cluster'), state.session.cluster);
  setText(document.getElementById('who'), `${state.session.name}, ${state.session.role}`);
  document.getElementById('logout').addEventListener('click', async () => {
    await change('/api/v1/logout').catch(() => {});
    location.replace('/login');
  });
  const live = document.getElementById('live');
  const problem = document.getElementById('problem');
  onSign({
    status: (word) => {
      setText(live, word);
      live.classList.toggle('on', word === 'live');
    },
    problem: (words) => {
      problem.hidden = !words;
      setText(problem, words ?? '');
    },
  });
  onChange(draw);
  addEventListener('hashchange', turn);
  turn();
  connect();
  // Ages grow while nothing else changes.
  setInterval(() => { if (state.overview && !document.hidden) draw(); }, 15000);
}

begin();
