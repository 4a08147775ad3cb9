/** Returns an HTML page with the figures and, for each key, a timeline of its leases. The wheel zooms, dragging moves. */
export function toHtml({ leases, faults, began, ended }, summary) {
  const workers = [...new Set(leases.map(({ worker }) => worker))].sort();
  const keys = [...new Set(leases.map(({ key }) => key))].sort();
  const at = (time) => Math.round(Math.min(time, ended) - began);
  const data = {
    length: at(ended),
    workers,
    keys: keys.map((key) => ({
      key,
      leases: leases
        .filter((lease) => lease.key === key)
        .map(({ worker, granted, ended, how }) => [
          workers.indexOf(worker),
          at(granted),
          at(ended),
          how === 'releasing' ? 0 : 1,
        ]),
    })),
    faults: faults.map(({ kind, worker, from, until }) => [
      workers.indexOf(worker),
      at(from),
      at(until),
      kind,
    ]),
  };
  const rows = (list) =>
    list.map((cells) => `<tr>${cells.map((cell) => `<td>${cell}</td>`).join('')}</tr>`).join('');
  const { checks, faults: dealt, seed, server, transport, seconds } = summary;
  return `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>Chaos, seed ${seed}</title>
<style>
  body { font: 14px/1.4 system-ui, sans-serif; margin: 2rem; color: #222; }
  table { border-collapse: collapse; margin: 0 2rem 1rem 0; float: left; }
  td { border-bottom: 1px solid #ddd; padding: .1rem .6rem; }
  td + td { text-align: right; }
  h2 { clear: both; }
  canvas { width: 100%; cursor: grab; }
</style>
<h1>Chaos, seed ${seed}</h1>
<p>${seconds} s over ${transport} on ${server}. Each row is a worker. Blue: a lease that was released; red: a lease
that was lost; grey: a fault of the worker; yellow: a fault of the servers.</p>
<table>${rows(Object.entries(dealt))}</table>
<table>${rows(checks.map(({ name, made, violations }) => [name, made, violations]))}</table>
<h2>Leases by key</h2>
<div id="lanes"></div>
<script>
const data = ${JSON.stringify(data)};
${draw.toString()}
draw(data);
</script>
</html>
`;
}

/** Runs in the page. */
function draw({ length, workers, keys, faults }) {
  const ROW = 9;
  const view = { from: 0, until: length };
  const lanes = keys.map(({ key, leases }) => {
    const title = document.createElement('p');
    title.textContent = key;
    const canvas = document.createElement('canvas');
    document.getElementById('lanes').append(title, canvas);
    return { canvas, leases };
  });
  const paint = () => {
    for (const { canvas, leases } of lanes) {
      canvas.width = canvas.clientWidth;
      canvas.height = workers.length * ROW;
      const context = canvas.getContext('2d');
      const bar = (row, from, until, colour, rows = 1) => {
        if (until < view.from || from > view.until) return;
        const x = (time) => ((time - view.from) / (view.until - view.from)) * canvas.width;
        context.fillStyle = colour;
        context.fillRect(x(from), row * ROW, Math.max(1, x(until) - x(from)), rows * ROW - 1);
      };
      for (const [worker, from, until] of faults) {
        if (worker < 0) bar(0, from, until, '#ffe9a8', workers.length);
        else bar(worker, from, until, '#ddd');
      }
      for (const [worker, from, until, lost] of leases) {
        bar(worker, from, until, lost ? '#d33' : '#36c');
      }
    }
  };
  const move = (from, until) => {
    view.from = Math.max(0, from);
    view.until = Math.min(length, Math.max(until, view.from + 10));
    requestAnimationFrame(paint);
  };
  for (const { canvas } of lanes) {
    canvas.addEventListener('wheel', (event) => {
      event.preventDefault();
      const width = view.until - view.from;
      const centre = view.from + (event.offsetX / canvas.clientWidth) * width;
      const zoom = event.deltaY > 0 ? 1.25 : 0.8;
      move(centre - (centre - view.from) * zoom, centre + (view.until - centre) * zoom);
    });
    canvas.addEventListener('pointermove', (event) => {
      if (event.buttons === 0) return;
      const shift = (-event.movementX / canvas.clientWidth) * (view.until - view.from);
      if (view.from + shift >= 0 && view.until + shift <= length) {
        move(view.from + shift, view.until + shift);
      }
    });
  }
  addEventListener('resize', paint);
  paint();
}
