/** The choice between the base weights and the reactions judge at the first start of a line. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { announceUpgrade, openMemoryLog, type EventLog } from '@instar/log'
import { recordedSettings, recordSettings, resolveSection } from '@instar/process'
import { scorerConfig, type ScorerConfig } from '../config.ts'
import type { JudgePorts } from './judge-table.ts'
import type { Judge } from './judges.ts'
import { calibrationCases, chooseJudge, isOpen, measureSelf, openJudge, recordedChoice } from './choose-judge.ts'
import { judgeSection } from '../section.ts'
import { ADMIN_TOKEN, eventsOf, startRig, type Rig } from '../../../../test/kit/gateway.ts'
import { startTiny } from '../../../../test/kit/tiny.ts'

const CASES = calibrationCases()
const SETTINGS = { self: { votes: 1, maxTokens: 300 } }
const never = new AbortController().signal
const AUTO = scorerConfig.parse({ judges: ['auto'], ...SETTINGS })
const VALUES = resolveSection(judgeSection, {
  file: { source: 'instar.json', settings: { judge: { order: ['auto'], ...SETTINGS } } },
  environment: [],
  parameters: null,
}).values

const portsOf = (url: string, lines: string[] = []): JudgePorts => ({
  now: Date.now,
  logLine: (line) => lines.push(line),
  gateway: async () => ({ url, key: ADMIN_TOKEN }),
})
const upgraded = async (): Promise<EventLog> => {
  const log = openMemoryLog()
  await announceUpgrade(log, 'up', 1, never)
  return log
}
/** A model that knows the labels. */
const knowing = (): Promise<Rig> => {
  const verdict = (prompt: string): string => {
    const last = prompt.slice(prompt.lastIndexOf('What stands between'))
    const found = CASES.find(
      ({ request, next }) =>
        last.includes(JSON.stringify(request).slice(1, -1)) &&
        (next.user === '' || last.includes(JSON.stringify(next.user).slice(1, -1))),
    )
    return { '1': 'good', '-1': 'bad', '0': 'unclear' }[String(found!.label)]!
  }
  // The constraint is the real engine's matter.
  return startRig({ script: (_, prompt) => JSON.stringify({ reason: 'r', verdict: verdict(prompt), hint: '' }) })
}

test('the cases are of the open split of the benchmark, eight of each label', () => {
  const dev = new Set(
    readFileSync('bench/judge/dev.jsonl', 'utf8')
      .trim()
      .split('\n')
      .map((line) => {
        const { id, request, answer, label, next } = JSON.parse(line) as (typeof CASES)[number]
        return JSON.stringify([id, request, answer, label, next.user])
      }),
  )
  for (const { id, request, answer, label, next } of CASES)
    assert.ok(dev.has(JSON.stringify([id, request, answer, label, next.user])), id)
  for (const label of [1, -1, 0]) assert.equal(CASES.filter((one) => one.label === label).length, 8)
})

test('open is what the settings name auto, or leave to the default for a model above ten million parameters', () => {
  const open = (config: object, parameters: number | null) => isOpen(scorerConfig.parse(config), parameters)
  assert.deepEqual(
    [null, 10_000_000, 10_000_001].map((parameters) => open({}, parameters)),
    [false, false, true],
  )
  assert.equal(open({ judges: ['auto'] }, null), true)
  assert.equal(open({ judges: ['reactions'] }, 1e9), false)
  assert.equal(open({ llm: { url: 'http://judge/v1' } }, 1e9), false)
})

test('a base that judges better is chosen, said in a line, recorded beside the settings, and asked no second time', async () => {
  const log = await upgraded()
  const rig = await knowing()
  const lines: string[] = []
  const ports = portsOf(rig.url, lines)
  const choosing = { config: AUTO, ports, signal: never, values: VALUES, who: 'up' as const, parameters: null }
  try {
    assert.equal(await recordedChoice(log, AUTO, ports), null)
    const first = await openJudge(log, choosing)
    assert.deepEqual(first.config.judges, ['auto'], 'until it is measured the reactions judge judges')
    const judges = await new Promise<readonly Judge[]>((resolve) => first.started({ useJudges: resolve }))
    assert.deepEqual(
      judges.map(({ id }) => id.split('-')[0]),
      ['self', 'reactions'],
    )
    assert.equal(rig.engine.requests.length, CASES.length)
    assert.ok(rig.engine.requests.every(({ adapter }) => adapter === null))
    assert.equal(lines.length, 1)
    assert.match(
      lines[0]!,
      /^The base weights judge turns on this line \(24 of 24 labelled cases in \d+ s: base precision 1\.00, recall 1\.00;/,
    )
    assert.deepEqual(await eventsOf(rig.log), [])
    // A later start, also with another setting of the section.
    const again = { policy: 'policy', who: 'up' as const, judges: () => [], now: 3, signal: never }
    assert.deepEqual(await recordSettings(log, { ...again, values: VALUES }), [])
    const other = VALUES.map((one) => (one.name === 'judge.duplicates' ? { ...one, value: 9 } : one))
    assert.deepEqual(await recordSettings(log, { ...again, values: other }), ['judge'])
    const second = await openJudge(log, choosing)
    assert.deepEqual(second.config.judges, ['self'])
    assert.equal(rig.engine.requests.length, CASES.length)
    // Another prompt or other votes are another judge.
    const changed: ScorerConfig = { ...AUTO, self: { ...AUTO.self, votes: 3 } }
    assert.equal(await recordedChoice(log, changed, ports), null)
  } finally {
    await rig.stop()
  }
})

test(
  'the shipped model, which cannot judge, is not chosen; nor is one that is too slow',
  { timeout: 120_000 },
  async () => {
    const log = await upgraded()
    const tiny = await startTiny({ adminToken: ADMIN_TOKEN })
    const lines: string[] = []
    const measuring = { config: AUTO, ports: portsOf(tiny.url, lines), signal: never, cases: CASES.slice(0, 8) }
    try {
      assert.equal(await chooseJudge(log, { ...measuring, values: VALUES, who: 'up', limitMs: 100_000 }), 'reactions')
      assert.match(
        lines[0]!,
        /^The reactions judge judges turns on this line: the base weights are (not better|too slow) \(\d of 8/,
      )
      const recorded = (await recordedSettings(log, 'policy')).get('judge')!
      assert.equal((JSON.parse(recorded.settings['judge.calibration']!) as { choice: string }).choice, 'reactions')
      assert.equal(await recordedChoice(log, AUTO, measuring.ports), 'reactions')
      const slow = await measureSelf({ ...measuring, limitMs: 1 })
      assert.deepEqual([slow?.choice, slow?.judged], ['reactions', 0])
    } finally {
      await tiny.stop()
    }
  },
)

test('without a verdict nothing is recorded, and the next start measures again', async () => {
  const log = await upgraded()
  const rig = await startRig({ script: () => 'I cannot tell.' })
  const lines: string[] = []
  try {
    const choosing = { config: AUTO, ports: portsOf(rig.url, lines), signal: never, cases: CASES.slice(0, 4) }
    assert.equal(await chooseJudge(log, { ...choosing, values: VALUES, who: 'up' }), null)
    assert.deepEqual(lines, ['The base weights gave no verdict on labelled cases: the reactions judge judges turns.'])
    assert.equal((await recordedSettings(log, 'policy')).size, 0)
  } finally {
    await rig.stop()
  }
})

test('a scorer that stops ends the measurement, and nothing is recorded or said', async () => {
  const log = await upgraded()
  const rig = await startRig({
    script: () => ({
      text: 'x',
      before: (_, signal) =>
        new Promise((resolve) => signal?.addEventListener('abort', () => resolve(), { once: true })),
    }),
  })
  const lines: string[] = []
  const stop = new AbortController()
  const choosing = {
    config: AUTO,
    ports: portsOf(rig.url, lines),
    signal: stop.signal,
    values: VALUES,
    who: 'up' as const,
  }
  try {
    const running = assert.rejects(chooseJudge(log, choosing), /stopped/)
    while (rig.engine.requests.length === 0) await rig.fetch('/health/live')
    stop.abort(new Error('stopped'))
    await running
    await assert.rejects(chooseJudge(log, choosing), /stopped/, 'one that has stopped before')
    assert.deepEqual([lines, (await recordedSettings(log, 'policy')).size], [[], 0])
  } finally {
    await rig.stop()
  }
})
