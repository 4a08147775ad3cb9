import uPlot from './uplot/uPlot.esm.js';

/** Seconds on the axis of an empty chart. */
const SHORTEST = 1;

/** Stock and orders over the seconds of one sale; orders beyond the items are red. */
export class Chart {
  #element;
  #plot;
  #run;
  #items = 0;
  /** Points from before this page was opened. */
  #before = [];
  /** Columns: seconds, items, stock, orders, orders beyond the items. */
  #data = [[], [], [], [], []];

  constructor(element) {
    this.#element = element;
    this.#draw();
    new ResizeObserver(() => this.#plot.setSize(sizeOf(element))).observe(element);
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => this.#draw());
  }

  restart(history) {
    this.#before = history;
    this.#run = undefined;
  }

  add(run) {
    if (!run?.point) return;
    if (run.number !== this.#run) {
      this.#run = run.number;
      this.#items = run.order.items;
      this.#data = [[], [], [], [], []];
      this.#push([0, run.order.items, 0]);
      for (const point of this.#before) this.#push(point);
      this.#before = [];
    }
    this.#push(run.point);
    this.#plot.setData(this.#data);
    const [, stock, orders] = run.point;
    this.#element.ariaLabel = `Stock and orders over time: now ${orders} orders for ${this.#items} items, ${stock} left`;
  }

  #push([seconds, stock, orders]) {
    const [times, , , taken] = this.#data;
    if (times.length > 0 && seconds <= times.at(-1)) this.#data.forEach((column) => column.pop());
    const items = this.#items;
    // The red line starts when the last piece was sold, which is between two snapshots.
    const [time, before] = [times.at(-1), taken.at(-1)];
    if (before < items && orders > items) {
      const share = (items - before) / (orders - before);
      this.#row([time + share * (seconds - time), items, stock, items, items]);
    }
    this.#row([seconds, items, stock, orders, orders > items ? orders : null]);
  }

  #row(values) {
    values.forEach((value, i) => this.#data[i].push(value));
  }

  /** Redraws the chart: a canvas does not follow changes of the page's colours. */
  #draw() {
    this.#plot?.destroy();
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(`--${name}`);
    const axis = {
      stroke: colour('quiet'),
      grid: { stroke: colour('line'), width: 1 },
      ticks: { show: false },
    };
    const line = (name, width, more) => ({
      stroke: colour(name),
      width,
      points: { show: false },
      ...more,
    });
    this.#plot = new uPlot(
      {
        ...sizeOf(this.#element),
        legend: { show: false },
        cursor: { show: false },
        scales: {
          x: { time: false, range: (_, from, to) => [0, Math.max(to ?? 0, SHORTEST)] },
          y: { range: (_, from, to) => [0, Math.max(to ?? 0, 10) * 1.08] },
        },
        axes: [
          { ...axis, size: 30, values: (_, seconds) => seconds.map((value) => `${value} s`) },
          { ...axis, size: 46 },
        ],
        series: [
          {},
          line('quiet', 1.5, { dash: [6, 5] }),
          line('stock', 2.5),
          line('orders', 2.5),
          line('bad', 3.5),
        ],
        bands: [{ series: [4, 1], fill: `${colour('bad')}33` }],
      },
      this.#data,
      this.#element,
    );
  }
}

const sizeOf = ({ clientWidth, clientHeight }) => ({ width: clientWidth, height: clientHeight });
