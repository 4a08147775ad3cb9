import type { LogLine } from '../run/run-model.js';
import type { Verdict } from '../run/verdict.js';
import { CHINESE as timeline } from '../timeline/text.js';
import { type Messages, seconds } from './messages.js';

const n = (number: number) => number.toLocaleString('zh-CN');
const instance = (number: number | undefined) => `实例 ${number}`;
const aborted = () => '演示已中止。';

function verdict({ kind, tally, orders, fell, items, reason, ...rest }: Verdict): string {
  switch (kind) {
    case 'selling':
      return `已售 ${n(tally.sold)} 部，${n(tally.unanswered)} 人在等结果。`;
    case 'oversold':
      return `超卖：${n(items)} 部手机，${n(orders)} 个订单。`;
    case 'lost-update':
      return `${n(orders)} 个订单，库存却${fell! < orders ? '只' : ''}减少了 ${fell}。`;
    case 'exact':
      return rest.buyers < items
        ? `${n(rest.buyers)} 人全部买到，没有一部被重复卖出。`
        : `不多不少，正好卖出 ${n(items)} 部。`;
    case 'left':
      return `没有重复卖出，但还剩 ${n(items - orders)} 部：${n(tally.refused)} 人被拒绝。`;
    case 'unanswered':
      return `没有重复卖出，但 ${n(tally.unanswered)} 人没有等到结果。`;
    case 'unchecked':
      return `已售 ${n(tally.sold)} 部。数据库没有应答，库存未经核对。`;
    case 'failed':
      return `抢购未能进行：${reason ?? '原因不明'}。`;
  }
}

const FAULTS = {
  pause: '被暂停',
  cut: '与 ZooKeeper 断网',
  expire: '的会话被强制过期',
} as const;

const FAULT_ENDS = {
  pause: '恢复运行',
  cut: '网络恢复',
  expire: '已建立新会话',
} as const;

/** Why a lock was not granted. */
const NOT_GRANTED: Readonly<Record<string, string>> = {
  busy: '锁被占用',
  'timed-out': '等待超时',
  cancelled: '等待被取消',
  'no-connection': '与 ZooKeeper 没有连接',
  failed: '客户端出错',
};

const MODES: Messages['modes'] = {
  both: { name: '两种都跑', hint: '两场抢购同时进行：一场不加锁，一场加锁。' },
  none: {
    name: '不加锁',
    hint: '没有什么能阻止两位买家抢到同一部手机。',
    title: '不加锁',
    sale: '不加锁的抢购',
    notStarted: '所有买家同时写。',
  },
  lock: {
    name: '加锁',
    hint: '一次一位买家。锁先在实例内逐个传递，再转给下一个实例。',
    title: '加锁',
    sale: '加锁的抢购',
    notStarted: '一次只有一位买家写。',
  },
  lingering: {
    name: '驻留锁',
    hint: '与“加锁”相同，但空闲的实例会留着锁，直到别的实例来要。',
    title: '驻留锁',
    sale: '驻留锁的抢购',
    notStarted: '一次只有一位买家写。',
  },
  strict: {
    name: '严格排队',
    hint: '一次一位买家，所有实例统一按先来后到。',
    title: '严格排队',
    sale: '严格排队的抢购',
    notStarted: '一次只有一位买家写。',
  },
};

function logLine(line: LogLine, outcome: string | undefined): string {
  const { kind, mode = 'lock', reason } = line;
  const who = line.instance === undefined ? 'ZooKeeper ' : instance(line.instance);
  switch (kind) {
    case 'sale-started':
      return `${MODES[mode].sale}开始。`;
    case 'sale-ended':
      return `${MODES[mode].sale}结束。${outcome ?? ''}`;
    case 'sale-failed':
      return `${MODES[mode].sale}未能进行：${reason}。`;
    case 'fault':
      return `${who} ${FAULTS[line.fault!]}。`;
    case 'fault-ended':
      return `${who} ${FAULT_ENDS[line.fault!]}。`;
    case 'died':
      return `${who} 进程已死。`;
    case 'started':
      return `${who} 已启动。`;
    case 'suspended':
      return `${who} 连接断开，会话可能还在。`;
    case 'session-lost':
      return `${who} 会话失效，它持有的锁全部作废。`;
    case 'connected':
      return `${who} 重新连上。`;
    case 'leader':
      return `${who} 成为主节点。`;
    case 'ensemble-silent':
      return 'ZooKeeper 停止应答。';
    case 'ensemble-answers':
      return 'ZooKeeper 恢复应答。';
    case 'lease-lost':
      return `${who} 丢失了租约${line.token ? `（令牌 ${line.token}）` : ''}。`;
    case 'write-refused':
      return `栅栏拒绝了${who} 迟到的写入，令牌 ${line.token}。`;
    case 'not-granted':
      return `${who} 有 ${n(line.count ?? 1)} 个请求没有拿到锁：${NOT_GRANTED[reason!] ?? reason}。`;
    case 'moved-on':
      return `锁从${instance(line.from)} 转到${who}。`;
  }
}

export const zh: Messages = {
  title: '秒杀现场',
  headline: (items, of, servers) => `${n(items)} 部手机，${n(of)} 人抢，${n(servers)} 台服务器。`,
  lead: (from, to) =>
    `每位买家先读库存，过 ${from === to ? from : `${from} 到 ${to}`} 毫秒再写回“库存减一”。看看不加锁会怎样，加了锁又怎样。`,
  run: { both: '两种都跑', one: '开始' },
  running: '进行中……',
  scenarios: '或者看一段演示',
  scenarioNames: {
    oversell: '超卖',
    herd: '惊群',
    'sleeping-holder': '睡着的持锁者',
    'killed-leader': '主节点被杀',
  },
  captions: {
    oversell: {
      start: () => '两场抢购同时开始：一场不加锁，一场加锁。',
      'same-stock': () => '两位买家读到了同一个库存，将写回同一个数：一部手机卖了两次。',
      end: () => '不加锁，订单比手机多；加了锁，不多不少。',
      aborted,
    },
    herd: {
      start: () => '所有买家排队等一把严格的锁：每人一个 znode。',
      queue: () => '队伍很长，但每个人只盯着排在自己前面的那个 znode。',
      release: () => '锁释放了。ZooKeeper 只通知了一个等待者，没有惊动整群。',
      end: () => '每次释放只唤醒一个等待者，先来先得。',
      aborted,
    },
    'sleeping-holder': {
      start: () => '一场加锁的抢购，请盯住持锁者。',
      sleep: (number) => `${instance(number)} 拿着锁，在读和写之间睡着了。`,
      'moved-on': (number) => `它的会话过期，锁转给了${instance(number)}。`,
      wake: (number) => `${instance(number)} 醒来，没有检查是否还持有锁，继续写入。`,
      refused: () => '栅栏拒绝了这次写入：后来的持锁者已经留下更大的令牌。',
      lost: (number) => `${instance(number)} 这才得知租约已经丢失。`,
      end: () => '锁照常流转，迟到的写入没有造成任何损害。',
      aborted,
    },
    'killed-leader': {
      start: () => '只有主节点负责关闭未付款的订单。',
      kill: (number) => `${instance(number)} 是主节点，它被杀死了。`,
      elected: (number) => `它的会话过期，${instance(number)} 当选为新的主节点。`,
      revive: (number) => `${instance(number)} 重新启动，作为候选者参加选举。`,
      end: () => '自始至终，主节点不超过一个。',
      aborted,
    },
  },
  settings: '设置',
  lock: '抢购方式',
  modes: MODES,
  buyers: '买家',
  items: '手机',
  delayFrom: '延迟下限（毫秒）',
  delayTo: '延迟上限（毫秒）',
  invalid:
    '买家和手机：1 到 2,000，“严格排队”时买家最多 500；延迟：0 到 3,000 毫秒，下限不得高于上限。',
  onlyHere: '您正在观看。只有运行商店的那台机器才能开始抢购或制造故障。',
  preparing: '正在上架手机……',
  verdict,
  tally: { sold: '买到', soldOut: '售罄', refused: '被拒', unanswered: '未应答' },
  byFence: (number) => `栅栏拒绝了 ${n(number)} 次迟到的写入`,
  unconnected: (number) => `${n(number)} 个请求时与 ZooKeeper 没有连接`,
  database: (orders, stock) =>
    orders === undefined ? '数据库尚未应答。' : `数据库：${n(orders)} 个订单，库存 ${stock}`,
  lastRead: (age) => `${age}前读取`,
  instance,
  holds: '持锁',
  leads: '主节点',
  leader: (number) =>
    number === undefined ? '目前没有主节点。' : `${instance(number)} 是主节点。`,
  states: {
    starting: '启动中',
    dead: '进程已死',
    connected: '已连接',
    connecting: '连接中',
    suspended: '连接挂起',
    lost: '会话失效',
    paused: '已暂停',
  },
  cutOff: '网络已断',
  notConfirmed: (age) => `${age}未确认`,
  lockFreeIn: (time) => `${time}后锁可用`,
  lockFreeSoon: '锁即将可用',
  actions: {
    pause: '暂停',
    resume: '恢复',
    cut: '断网',
    heal: '恢复网络',
    kill: '杀死',
    revive: '重启',
    expire: '会话过期',
  },
  actionOn: (action, number) => `${action}：${instance(number)}`,
  pauseZookeeper: '暂停 ZooKeeper',
  resumeZookeeper: '恢复 ZooKeeper',
  answers: '应答正常',
  silentFor: (age) => `已有 ${age}没有应答`,
  link: {
    connecting: '连接中……',
    live: '实时',
    noConnection: (age) => `与服务器断开已 ${age}，页面显示的是最后收到的状态。`,
    silent: (age) => `ZooKeeper 已有 ${age}没有应答。`,
    noConnectionNow: '与服务器断开，页面显示的是最后收到的状态。',
    silentNow: 'ZooKeeper 没有应答。',
  },
  log: '事件记录',
  emptyLog: '暂无事件。',
  forgotten: (events) => `更早的 ${n(events)} 个事件已不再保留，时间线缺少始于其中的状态。`,
  logLine,
  share: {
    picture: '保存为图片',
    link: '复制链接',
    copied: '链接已复制',
    shownLink: '无法自动复制，请在此处复制链接：',
    fileName: '秒杀现场.png',
  },
  noAnswer: '服务器没有应答。',
  seconds: (ms) => `${seconds(ms)} 秒`,
  language: 'English',
  timeline,
};
