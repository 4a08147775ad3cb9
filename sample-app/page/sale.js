import { count } from './names.js';

const byId = (id) => document.getElementById(id);

/** The figures, and one sentence that explains them. */
export function showSale({ run, goods }) {
  if (!run) return;
  byId('verdict').dataset.sale = run.number;
  byId('verdict').dataset.over = run.over;
  const { items } = run.order;
  if (run.state === 'preparing') {
    showFigures({ items });
    showVerdict('Preparing the sale…');
    return;
  }
  const { orders, stock } = goods;
  const oversold = Math.max(0, orders - items);
  showFigures({ items, orders, stock, oversold, answered: run.answered, seconds: run.seconds });
  showVerdict(...verdict(run, goods, oversold));
}

function showFigures({ seconds, ...counts }) {
  for (const id of ['items', 'orders', 'stock', 'oversold', 'answered']) {
    byId(id).textContent = counts[id] === undefined ? '–' : count(counts[id]);
  }
  byId('oversold-figure').classList.toggle('oversold', counts.oversold > 0);
  byId('seconds').textContent = seconds === undefined ? '–' : seconds.toFixed(1);
}

/** The sentence during a sale has no figures, because screen readers announce each change. */
function verdict(run, { orders, stock }, oversold) {
  const { items } = run.order;
  if (run.state === 'failed') return ['The sale failed; the server’s log says why.', 'bad'];
  if (!run.over) return oversold > 0 ? ['Overselling…', 'bad'] : ['Selling…'];
  if (oversold > 0) {
    return [`Oversold: ${count(orders)} orders for ${count(items)} items.`, 'bad'];
  }
  if (orders + stock !== items) {
    return [
      `Lost writes: ${count(orders)} orders, yet ${count(stock)} of ${count(items)} left.`,
      'bad',
    ];
  }
  if (stock > 0) return [`Sold ${count(orders)}, ${count(stock)} left, none twice.`, 'good'];
  return [`Sold exactly ${count(items)}, none twice.`, 'good'];
}

function showVerdict(text, kind = '') {
  const element = byId('verdict');
  if (element.textContent === text) return;
  element.textContent = text;
  element.className = `verdict ${kind}`;
}
