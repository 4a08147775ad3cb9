import type { BandKind, TimelineData } from './data.js';

/** The words of a timeline. */
export interface TimelineText {
  readonly bands: Readonly<Record<BandKind, string>>;
  readonly legend: {
    readonly holds: string;
    readonly leads: string;
    readonly waits: string;
    readonly buys: string;
    readonly overwrites: string;
    readonly interrupted: string;
    readonly handOver: string;
    readonly refused: string;
  };
  readonly zoomIn: string;
  readonly zoomOut: string;
  readonly whole: string;
  readonly lock: string;
  readonly allLocks: string;
  /** Shown until the user points at a bar. */
  readonly hint: string;
  /** Shown while the timeline has the focus. */
  readonly keys: string;
  readonly table: string;
  /** Column headings: lane, requested, granted, ended, outcome, token. */
  readonly columns: readonly [string, string, string, string, string, string];
  readonly summary: (data: TimelineData) => string;
  readonly waiting: (count: number) => string;
  readonly requested: string;
  readonly granted: string;
  readonly holding: string;
  readonly outcome: (outcome: string) => string;
  readonly lockFreedAt: string;
  readonly token: string;
  readonly read: string;
  readonly written: string;
  readonly writeRefused: string;
  /** Label of a refused write. */
  readonly refused: string;
  readonly overwrote: string;
  /** Outcomes of a write. */
  readonly writes: Readonly<Record<'written' | 'overwrote' | 'refused', string>>;
  readonly fault: string;
}

export const ENGLISH: TimelineText = {
  bands: {
    paused: 'paused',
    cut: 'network cut',
    suspended: 'suspended',
    lost: 'session lost',
    dead: 'dead',
    unconfirmed: 'not confirmed',
  },
  legend: {
    holds: 'holds the lock (#: fencing token)',
    leads: 'leads',
    waits: 'waits',
    buys: 'reads, then writes',
    overwrites: 'overwrites another purchase',
    interrupted: 'ended without a release',
    handOver: 'hand-over',
    refused: 'write refused',
  },
  zoomIn: 'Zoom in',
  zoomOut: 'Zoom out',
  whole: 'Whole run',
  lock: 'Lock',
  allLocks: 'all',
  hint: 'Point at a bar for its details.',
  keys: 'Keys: + and − zoom, ← and → move, ↑ and ↓ select a bar.',
  table: 'As a table',
  columns: ['Lane', 'Requested or read', 'Granted', 'Ended or written', 'Outcome', 'Token'],
  summary: ({ lanes, leases, writes }) =>
    `Timeline of ${lanes.join(', ')}: ${leases.filter(({ granted }) => granted !== undefined).length} grants, ${writes.filter(({ outcome }) => outcome === 'refused').length} refused writes, ${writes.filter(({ outcome }) => outcome === 'overwrote').length} overwriting writes`,
  waiting: (count) => `${count} waiting`,
  requested: 'requested at',
  granted: 'granted at',
  holding: 'holds',
  outcome: (outcome) => outcome,
  lockFreedAt: 'the lock moved on at',
  token: 'fencing token',
  read: 'read the stock at',
  written: 'wrote it at',
  writeRefused: 'the fence refused the write at',
  refused: 'the fence refused the write',
  overwrote: 'overwrote another purchase',
  writes: {
    written: 'written',
    overwrote: 'overwrote another purchase',
    refused: 'refused by the fence',
  },
  fault: 'fault',
};

export const CHINESE: TimelineText = {
  bands: {
    paused: '进程暂停',
    cut: '网络中断',
    suspended: '连接挂起',
    lost: '会话失效',
    dead: '进程已死',
    unconfirmed: '状态未知',
  },
  legend: {
    holds: '持有锁（# 为令牌序号）',
    leads: '主节点',
    waits: '排队等待',
    buys: '先读后写',
    overwrites: '覆盖了别人的扣减',
    interrupted: '未释放就中断',
    handOver: '锁的交接',
    refused: '写入被拒',
  },
  zoomIn: '放大',
  zoomOut: '缩小',
  whole: '全程',
  lock: '锁',
  allLocks: '全部',
  hint: '指向条块可看详情。',
  keys: '键盘：+ − 缩放，← → 移动，↑ ↓ 逐个选择。',
  table: '以表格查看',
  columns: ['实例', '请求（或读取）', '授予', '结束（或写入）', '结果', '令牌'],
  summary: ({ lanes, leases, writes }) =>
    `${lanes.join('、')}的时间线：授予 ${leases.filter(({ granted }) => granted !== undefined).length} 次，拒绝写入 ${writes.filter(({ outcome }) => outcome === 'refused').length} 次，覆盖写入 ${writes.filter(({ outcome }) => outcome === 'overwrote').length} 次`,
  waiting: (count) => `${count} 个在等`,
  requested: '请求于',
  granted: '获得于',
  holding: '持有中',
  outcome: (outcome) =>
    ({ released: '已释放', lost: '租约丢失', died: '进程死亡', 'not granted': '未获得' })[
      outcome
    ] ?? outcome,
  lockFreedAt: '锁移交于',
  token: '栅栏令牌',
  read: '读库存于',
  written: '写库存于',
  writeRefused: '栅栏拒绝写入于',
  refused: '栅栏拒绝了写入',
  overwrote: '覆盖了别人的扣减',
  writes: { written: '已写入', overwrote: '覆盖了别人的扣减', refused: '被栅栏拒绝' },
  fault: '故障',
};
