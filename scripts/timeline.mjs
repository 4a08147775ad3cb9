/**
 * Returns an HTML page that shows which process waited for leases and held them, and which faults struck
 * meanwhile. The page loads nothing from elsewhere. `show` runs in the page, so it cannot be divided into modules.
 *
 * `timeline` is `{ title, facts, length, lanes, leases, faults, handOvers, violations }`; times are
 * milliseconds:
 * - `facts`: `[name, value]` pairs
 * - `lanes`: names of processes and servers; leases and faults refer to them by index
 * - `leases`: `{ lane, key, mode, asked, granted, ended, outcome, token }`; `asked` is undefined if the time of
 *   the request is unknown, and `granted` if the lock was not granted
 * - `faults`: `{ lane, index, kind, from, until }`
 * - `handOvers`: `[released, granted]` pairs of indexes of leases
 * - `violations`: `{ property, message, at }`
 */
export function timelinePage(timeline) {
  const { title, facts, leases, handOvers, violations } = timeline;
  const hasRequests = leases.some(({ asked }) => asked !== undefined);
  const list = facts.map(
    ([name, value]) => `<div><dt>${escape(name)}</dt><dd>${escape(value)}</dd></div>`,
  );
  const buttons = violations.map(
    ({ property, message }, index) =>
      `<button class="violation" data-violation="${index}"><b>${escape(property)}</b> ${escape(message)}</button>`,
  );
  // Text such as `</script>` in the data must not end the script.
  const data = JSON.stringify(timeline).replaceAll('<', '\\u003c');
  return `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<link rel="icon" href="data:,">
<title>${escape(title)}</title>
<style>${STYLE}</style>
<h1>${escape(title)}</h1>
<dl>${list.join('')}</dl>
${buttons.join('\n')}
<form>
  <label>Lock <select id="key"><option value="">all</option></select></label>
  <label><input type="checkbox" id="tall"> All rows in full height</label>
  <span><button type="button" id="in">Zoom in</button> <button type="button" id="out">Zoom out</button>
  <button type="button" id="whole">Whole run</button></span>
  <span id="legend">
    <span${hidden(hasRequests)}><i class="wait"></i> waits</span>
    <span><i class="hold"></i> holds, with its fencing token</span> <span><i class="lost"></i> not released</span>
    <span${hidden(hasRequests)}><i class="refused"></i> not granted</span>
    <span><i class="fault"></i> fault</span>
    <span${hidden(handOvers.length > 0)}>↘ hand-over to another process
      <small id="too-many" hidden>(zoom in to see them)</small></span>
  </span>
</form>
<p id="colours"></p>
<p class="hint">The wheel zooms, dragging moves, and so do the keys + − ← →. Point at a bar for its details.</p>
<div id="timeline" tabindex="0"><canvas id="axis"></canvas><canvas id="lanes"></canvas></div>
<div id="details" hidden></div>
<script>
${show.toString()}
show(${data});
</script>
</html>
`;
}

const STYLE = `
  :root { color-scheme: light; }
  body { font: 14px/1.4 system-ui, sans-serif; margin: 1rem 1.5rem; color: #222; background: #fff; }
  h1 { font-size: 1.4rem; margin: 0 0 .5rem; }
  dl { display: flex; flex-wrap: wrap; gap: .2rem 1.5rem; margin: 0 0 .8rem; }
  dl div { display: flex; gap: .4rem; }
  dl dt { color: #666; } dl dd { margin: 0; font-variant-numeric: tabular-nums; }
  form { display: flex; flex-wrap: wrap; gap: .4rem 1.5rem; align-items: center; }
  #colours { display: flex; flex-wrap: wrap; gap: .1rem 1rem; margin: .4rem 0; }
  #colours i { display: inline-block; width: .7rem; height: .7rem; }
  .hint { color: #666; margin: .4rem 0; }
  .violation { display: block; width: 100%; margin: 0 0 .5rem; padding: .5rem .8rem; text-align: left; font: inherit;
    color: #8c1010; background: #fdecec; border: 1px solid #d33; border-radius: 4px; cursor: pointer; white-space: pre-wrap; }
  #legend { display: flex; flex-wrap: wrap; gap: .2rem 1rem; }
  #legend i { display: inline-block; width: 1.6rem; height: .7rem; vertical-align: -1px; }
  .wait { background: linear-gradient(#2f6fb4, #2f6fb4) center / 100% 2px no-repeat; }
  .hold { background: #2f6fb4; }
  .lost { background: #2f6fb4; border-right: 4px solid #d22; box-sizing: border-box; }
  .refused { background: linear-gradient(#999, #999) center / 100% 2px no-repeat; border-right: 3px solid #999; box-sizing: border-box; }
  .fault { background: #ffe3a0; border: 1px solid #d9a520; box-sizing: border-box; }
  #timeline { cursor: grab; outline-offset: 2px; }
  #timeline canvas { display: block; width: 100%; touch-action: none; }
  #axis { position: sticky; top: 0; z-index: 1; background: #fff; height: 24px; }
  #details { position: fixed; z-index: 2; max-width: 32rem; padding: .4rem .7rem; background: #222; color: #fff; border-radius: 4px;
    pointer-events: none; white-space: pre-wrap; font-size: 13px; }
`;

function hidden(isShown) {
  return isShown ? '' : ' hidden';
}

function escape(text) {
  return String(text).replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('"', '&quot;');
}

/** Draws the timeline. Runs in the page. */
function show({ length, lanes, leases: recorded, faults, handOvers, violations }) {
  const leases = recorded.map((lease) => ({ ...lease, asked: lease.asked ?? lease.granted }));
  const ROW = 13;
  /** A lane with more rows than these shows the others as thin lines, which share `THIN_ROWS` pixels. */
  const TALL_ROWS = 8;
  const THIN_ROWS = 120;
  const THINNEST = 2;
  /** Bars at least this high have room for a fencing token. */
  const TEXT = 10;
  const FAULT_ROW = 15;
  const GAP = 8;
  const AXIS = 24;
  const NARROWEST = 0.05;
  /** With more connectors than these nothing else could be seen, so none is drawn. */
  const MOST_CONNECTORS = 300;
  const COLOURS = [
    '#2f6fb4',
    '#2d8659',
    '#8a4fb0',
    '#b3641c',
    '#14808f',
    '#a8417c',
    '#5d6b2f',
    '#5a5fd0',
    '#7a5230',
    '#c2410c',
    '#475569',
    '#0f7a3d',
  ];
  const NOT_GRANTED = '#999';
  const element = (id) => document.getElementById(id);
  const axis = element('axis');
  const canvas = element('lanes');
  const details = element('details');
  const select = element('key');
  const tall = element('tall');
  const keys = [...new Set(leases.map(({ key }) => key))].sort();
  const colours = new Map(keys.map((key, index) => [key, COLOURS[index % COLOURS.length]]));
  for (const [key, colour] of colours) {
    select.add(new Option(key));
    const swatch = document.createElement('i');
    swatch.style.background = colour;
    const name = document.createElement('span');
    name.append(swatch, ` ${key}`);
    element('colours').append(name);
  }
  const view = { from: 0, until: length };
  let rows, tops, height, labels;

  /**
   * Gives each lease a row of its lane that is free from its request to its end. Long holds come first, so
   * they get the rows at the top.
   */
  function layOut() {
    rows = new Map();
    tops = [];
    height = 0;
    const held = ({ granted, ended }) => (granted === undefined ? 0 : ended - granted);
    const shown = [...leases.keys()]
      .filter((index) => !select.value || leases[index].key === select.value)
      .sort((a, b) => held(leases[b]) - held(leases[a]));
    lanes.forEach((_, lane) => {
      const taken = [];
      for (const index of shown) {
        if (leases[index].lane !== lane) continue;
        let row = taken.findIndex((spans) => take(spans, leases[index]));
        if (row < 0) {
          row = taken.length;
          taken.push([leases[index]]);
        }
        rows.set(index, row);
      }
      const strip = faults.some((fault) => fault.lane === lane) ? FAULT_ROW : 0;
      const thin = Math.max(0, taken.length - TALL_ROWS);
      const pitch = tall.checked ? ROW : Math.min(ROW, Math.max(THINNEST, THIN_ROWS / thin));
      tops.push({ top: height, strip, pitch });
      height += strip + Math.max(1, taken.length - thin) * ROW + thin * pitch + GAP;
    });
  }

  /** Adds a lease to the leases of a row, which are in the order of time. False where it overlaps one of them. */
  function take(spans, lease) {
    let low = 0;
    let high = spans.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (spans[middle].asked < lease.asked) low = middle + 1;
      else high = middle;
    }
    if (spans[low - 1]?.ended > lease.asked || spans[low]?.asked < lease.ended) return false;
    spans.splice(low, 0, lease);
    return true;
  }

  const width = () => canvas.clientWidth;
  const x = (time) => labels + ((time - view.from) / (view.until - view.from)) * (width() - labels);
  const timeAt = (pixel) =>
    view.from + ((pixel - labels) / (width() - labels)) * (view.until - view.from);
  /** Where the bar of a lease is, and how high it is. */
  const place = (index) => {
    const { top, strip, pitch } = tops[leases[index].lane];
    const row = rows.get(index);
    const above = Math.min(row, TALL_ROWS) * ROW + Math.max(0, row - TALL_ROWS) * pitch;
    const room = row < TALL_ROWS ? ROW : pitch;
    const bar = room > 4 ? room - 2 : room * 0.75;
    return {
      top: top + strip + above + GAP / 2,
      bar,
      middle: top + strip + above + GAP / 2 + bar / 2,
    };
  };
  const isVisible = (from, until) => until >= view.from && from <= view.until;

  function prepare(target, pixels) {
    const scale = devicePixelRatio;
    target.width = width() * scale;
    target.height = pixels * scale;
    target.style.height = `${pixels}px`;
    const context = target.getContext('2d');
    context.scale(scale, scale);
    context.font = '11px system-ui, sans-serif';
    context.textBaseline = 'middle';
    return context;
  }

  function paint() {
    const context = prepare(canvas, height);
    labels = Math.max(...lanes.map((name) => context.measureText(name).width)) + 16;
    const clip = new Path2D();
    clip.rect(labels, 0, width() - labels, height);
    context.save();
    context.clip(clip);
    paintGrid(context);
    for (const fault of faults) paintFault(context, fault);
    for (const index of rows.keys()) paintLease(context, index);
    paintConnectors(context);
    for (const { at } of violations) line(context, '#d22', 1.5, x(at), 0, x(at), height);
    context.restore();
    lanes.forEach((name, lane) => {
      const { top } = tops[lane];
      const bottom = tops[lane + 1]?.top ?? height;
      line(context, '#bbb', 1, 0, bottom - 0.5, width(), bottom - 0.5);
      context.fillStyle = '#222';
      context.fillText(name, 4, Math.min((top + bottom) / 2, top + FAULT_ROW));
    });
    paintAxis();
  }

  /** The times of the axis: round, and about 100 pixels apart. */
  function ticks() {
    const least = ((view.until - view.from) / (width() - labels)) * 100;
    const power = 10 ** Math.floor(Math.log10(least));
    const step = [1, 2, 5, 10].map((factor) => factor * power).find((each) => each >= least);
    const times = [];
    for (let n = Math.ceil(view.from / step); n * step <= view.until; n++) times.push(n * step);
    return { times, digits: Math.max(0, -Math.floor(Math.log10(step))) };
  }

  function paintGrid(context) {
    for (const time of ticks().times) line(context, '#eee', 1, x(time), 0, x(time), height);
  }

  function paintAxis() {
    const context = prepare(axis, AXIS);
    const { times, digits } = ticks();
    context.fillStyle = '#444';
    context.fillText('ms', 4, AXIS / 2);
    context.textAlign = 'center';
    const options = { minimumFractionDigits: digits, maximumFractionDigits: digits };
    for (const time of times) {
      const text = time.toLocaleString('en', options);
      const half = context.measureText(text).width / 2;
      const at = Math.max(Math.min(x(time), width() - half), labels + half);
      context.fillText(text, at, AXIS / 2);
      line(context, '#999', 1, x(time), AXIS - 5, x(time), AXIS);
    }
  }

  function paintFault(context, { lane, index, kind, from, until }) {
    if (!isVisible(from, until)) return;
    const { top } = tops[lane];
    const bottom = tops[lane + 1]?.top ?? height;
    const left = x(from);
    const size = Math.max(2, x(until) - left);
    context.fillStyle = 'rgba(255, 205, 90, .4)';
    context.fillRect(left, top, size, bottom - top - 1);
    context.fillStyle = '#d9a520';
    context.fillRect(left, top, size, 2);
    context.fillRect(left, top, 1, bottom - top - 1);
    context.fillStyle = '#6b4a00';
    const text = `${index}: ${kind}`;
    const start = Math.max(left, labels) + 4;
    if (context.measureText(text).width + 6 < Math.max(left + size, labels) - start + 4) {
      context.fillText(text, start, top + FAULT_ROW / 2 + 2);
    }
  }

  function paintLease(context, index) {
    const { key, asked, granted, ended, outcome, token } = leases[index];
    if (!isVisible(asked, ended)) return;
    const { top, bar, middle } = place(index);
    const colour = colours.get(key);
    const isGranted = granted !== undefined;
    const left = x(asked);
    const right = x(ended);
    const start = isGranted ? x(granted) : right;
    context.fillStyle = isGranted ? colour : NOT_GRANTED;
    const thickness = Math.min(2, bar / 2);
    if (start - left > 0.5) {
      context.fillRect(left, middle - thickness / 2, start - left, thickness);
    }
    if (!isGranted) {
      context.fillRect(right - 1.5, top, 3, bar);
      return;
    }
    const size = Math.max(1, right - start);
    context.fillRect(start, top, size, bar);
    if (outcome !== 'released') {
      context.fillStyle = '#d22';
      context.fillRect(right - Math.min(4, size), top, Math.min(4, size), bar);
    }
    if (token === undefined || bar < TEXT) return;
    const from = Math.max(start, labels) + 3;
    const fits = (text) => context.measureText(text).width + 4 <= right - from;
    const text = [token, `…${token.slice(-6)}`].find(fits);
    if (text === undefined) return;
    context.fillStyle = '#fff';
    context.fillText(text, from, middle + 0.5);
  }

  function paintConnectors(context) {
    const seen = handOvers.filter(
      ([released, granted]) =>
        rows.has(released) &&
        rows.has(granted) &&
        isVisible(leases[released].ended, leases[granted].granted),
    );
    const tooMany = seen.length > MOST_CONNECTORS;
    element('too-many').hidden = !tooMany;
    if (tooMany) return;
    for (const [released, granted] of seen) {
      const [fromX, fromY] = [x(leases[released].ended), place(released).middle];
      const [toX, toY] = [x(leases[granted].granted), place(granted).middle];
      line(context, '#333', 1, fromX, fromY, toX, toY);
      const angle = Math.atan2(toY - fromY, toX - fromX);
      context.fillStyle = '#333';
      context.beginPath();
      context.moveTo(toX, toY);
      for (const side of [-0.4, 0.4]) {
        context.lineTo(toX - 7 * Math.cos(angle + side), toY - 7 * Math.sin(angle + side));
      }
      context.fill();
    }
  }

  function line(context, colour, thickness, fromX, fromY, toX, toY) {
    context.strokeStyle = colour;
    context.lineWidth = thickness;
    context.beginPath();
    context.moveTo(fromX, fromY);
    context.lineTo(toX, toY);
    context.stroke();
  }

  function move(from, until) {
    const size = Math.min(Math.max(until - from, NARROWEST), length);
    view.from = Math.min(Math.max(0, from), length - size);
    view.until = view.from + size;
    requestAnimationFrame(paint);
  }
  function zoom(factor, centre = (view.from + view.until) / 2) {
    move(centre - (centre - view.from) * factor, centre + (view.until - centre) * factor);
  }
  const shift = (by) => move(view.from + by, view.until + by);

  /** Describes the lease or the fault under the pointer. */
  function describe(pixel, down) {
    const time = timeAt(pixel);
    const slack = timeAt(pixel + 2) - time;
    const at = (from, until) => from - slack <= time && time <= until + slack;
    for (const index of rows.keys()) {
      const lease = leases[index];
      const { top, bar } = place(index);
      if (down >= top && down <= top + bar && at(lease.asked, lease.ended)) return leaseText(lease);
    }
    const fault = faults.find(({ lane, from, until }) => {
      const bottom = tops[lane + 1]?.top ?? height;
      return down >= tops[lane].top && down < bottom && at(from, until);
    });
    if (!fault) return '';
    return `fault ${fault.index}: ${fault.kind}\n${lanes[fault.lane]}, ${ms(fault.from)} to ${ms(fault.until)}`;
  }
  function leaseText({ lane, key, mode, asked, granted, ended, outcome, token }) {
    const lines = [`${key} (${mode}), ${lanes[lane]}`];
    if (asked !== granted) lines.push(`requested at ${ms(asked)}`);
    if (granted === undefined) {
      lines.push(`${outcome} after ${ms(ended - asked)}`);
    } else {
      const wait = asked === granted ? '' : ` after ${ms(granted - asked)}`;
      lines.push(`granted at ${ms(granted)}${wait}`);
      lines.push(`${outcome} at ${ms(ended)} after ${ms(ended - granted)}`);
    }
    if (token !== undefined) lines.push(`fencing token ${token}`);
    return lines.join('\n');
  }
  function ms(time) {
    return `${time.toLocaleString('en', { maximumFractionDigits: 3 })} ms`;
  }

  canvas.addEventListener('wheel', (event) => {
    event.preventDefault();
    if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      shift(Math.sign(event.deltaX || event.deltaY) * (view.until - view.from) * 0.1);
    } else zoom(event.deltaY > 0 ? 1.25 : 0.8, timeAt(event.offsetX));
  });
  canvas.addEventListener('pointerdown', (event) => canvas.setPointerCapture(event.pointerId));
  canvas.addEventListener('pointermove', (event) => {
    if (event.buttons !== 0) {
      shift(timeAt(0) - timeAt(event.movementX));
      scrollBy(0, -event.movementY);
    }
    const text = event.buttons === 0 ? describe(event.offsetX, event.offsetY) : '';
    details.hidden = text === '';
    details.textContent = text;
    details.style.top = `${Math.min(event.clientY + 14, innerHeight - details.offsetHeight - 4)}px`;
    details.style.left = `${Math.min(event.clientX + 14, innerWidth - details.offsetWidth - 4)}px`;
  });
  canvas.addEventListener('pointerleave', () => (details.hidden = true));
  element('timeline').addEventListener('keydown', ({ key }) => {
    if (key === '+') zoom(0.8);
    if (key === '-') zoom(1.25);
    if (key === 'ArrowLeft') shift((view.from - view.until) * 0.1);
    if (key === 'ArrowRight') shift((view.until - view.from) * 0.1);
  });
  element('in').addEventListener('click', () => zoom(0.5));
  element('out').addEventListener('click', () => zoom(2));
  element('whole').addEventListener('click', () => move(0, length));
  for (const button of document.querySelectorAll('.violation')) {
    const { at } = violations[button.dataset.violation];
    button.addEventListener('click', () => move(at - 100, at + 50));
  }
  for (const control of [select, tall]) {
    control.addEventListener('change', () => {
      layOut();
      paint();
    });
  }
  addEventListener('resize', paint);
  layOut();
  paint();
}
