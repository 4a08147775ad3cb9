// Passes the server's events to the parts of the page, and handles its buttons.
import { Chart } from './chart.js';
import { Instances } from './instances.js';
import { ChangeLog } from './change-log.js';
import { showLock } from './lock.js';
import { showSale } from './sale.js';

const HINTS = {
  none: 'Every buyer reads the stock, waits for the delay, and writes the stock minus one.',
  lock: 'One buyer at a time in all instances together. A process hands the lock over to its next buyer.',
  lingering:
    'As Lock, but an instance without buyers keeps the lock until another instance requests it.',
  strict:
    'One buyer at a time, in the order of arrival across all instances: one znode for each buyer.',
};

const form = document.querySelector('#order');
const refused = document.querySelector('#refused');
const link = document.querySelector('#link');
const chart = new Chart(document.querySelector('#chart'));
const changeLog = new ChangeLog(document.querySelector('#log'));
const instances = new Instances(document.querySelector('#instances'), post);
let canControl = false;

form.addEventListener('change', () => showHint());
form.addEventListener('submit', (event) => {
  event.preventDefault();
  const { mode, buyers, items, from, to } = Object.fromEntries(new FormData(form));
  const delay = [Number(from), Number(to)];
  void post('sale', { mode, buyers: Number(buyers), items: Number(items), delay });
});
showHint();

const events = new EventSource('live/events');
events.addEventListener('hello', ({ data }) => {
  const hello = JSON.parse(data);
  canControl = hello.canControl;
  instances.allow(hello);
  chart.restart(hello.history);
  showHint();
  link.textContent = 'live';
  link.classList.add('live');
});
events.addEventListener('now', ({ data }) => {
  const now = JSON.parse(data);
  chart.add(now.run);
  showSale(now);
  showLock(now);
  instances.show(now);
  changeLog.update(now);
  form.querySelector('#start').disabled = !canControl || (now.run && !now.run.over);
});
events.addEventListener('error', () => {
  link.textContent = 'no connection';
  link.classList.remove('live');
});

function showHint() {
  const elsewhere = canControl ? '' : ' The buttons work on the shop’s own machine only.';
  form.querySelector('#hint').textContent = HINTS[form.elements.mode.value] + elsewhere;
}

async function post(path, body) {
  refused.hidden = true;
  const answer = await fetch(`live/${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body ?? {}),
  }).catch(() => undefined);
  if (answer?.ok) return;
  const { message = 'The shop does not answer.' } = (await answer?.json()) ?? {};
  refused.textContent = message;
  refused.hidden = false;
}
