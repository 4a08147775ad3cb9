import { classOf, count, nameOf } from './names.js';

const queue = document.querySelector('#queue');
const token = document.querySelector('#token');
const leading = document.querySelector('#leader');
const more = document.querySelector('#more');

/** The queue of the lock's znodes, the holder first. */
export function showLock({ queue: { total, first }, goods, run, instances, leader }) {
  leading.textContent = leader ? nameOf(leader) : 'none yet';
  token.textContent = goods.fence === '0' ? 'none yet' : goods.fence;
  queue.replaceChildren(
    ...(first.length > 0 ? first.map((entry) => item(entry, instances)) : [emptyQueue()]),
  );
  const shown = first.length;
  const unlocked = run && !run.over && run.order.mode === 'none';
  more.textContent = unlocked
    ? 'The buyers of this sale do not use the lock.'
    : total > shown
      ? `and ${count(total - shown)} more wait`
      : '';
}

function item({ instance, state, mayLinger, node }, instances) {
  const one = instances.find(({ number }) => number === instance);
  const line = document.createElement('li');
  line.className = `${state} ${instance ? classOf(instance) : ''}`;
  line.dataset.instance = instance ?? '';
  line.title = node;
  const small = document.createElement('small');
  const gone = !one || one.life === 'dead' ? ', dead' : '';
  small.textContent =
    (mayLinger ? 'holds or lingers' : state === 'waiting' ? 'waits' : 'holds') + gone;
  line.append(nameOf(instance), small);
  return line;
}

function emptyQueue() {
  const line = document.createElement('li');
  line.className = 'nobody';
  line.textContent = 'No instance holds the lock.';
  return line;
}
