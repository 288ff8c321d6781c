/** The parts of the contract that need a second process: following a log that another process writes, and kill -9. */
import assert from 'node:assert/strict'
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import type { LogRecord, Offsets } from '@instar/log'
import { all, note, range, textOf, type Elsewhere, type OpenOptions, type Opened } from './harness.ts'

type Open = (options?: OpenOptions) => Promise<Opened>

/** In its own process group, which `process.kill(-pid)` ends; its lines are read as they come. */
const start = (script: string, elsewhere: Elsewhere, ...rest: string[]) => {
  const child = spawn(
    process.execPath,
    [fileURLToPath(new URL(`processes/${script}.ts`, import.meta.url)), elsewhere.module, elsewhere.place, ...rest],
    { detached: true, stdio: ['pipe', 'pipe', 'inherit'] },
  )
  return { child, lines: createInterface({ input: child.stdout }) }
}

const kill = async (child: ChildProcess, exited: Promise<unknown>): Promise<void> => {
  if (child.exitCode === null && child.signalCode === null) process.kill(-child.pid!, 'SIGKILL')
  await exited
}

export const readingElsewhere = async (open: Open): Promise<void> => {
  const opened = await open()
  const { log, elsewhere } = opened
  assert.ok(elsewhere)
  await log.append(range(50).map((i) => note(`k${i % 5}`, `early${i}`)))
  const { child, lines } = start('reader', elsewhere)
  const exited = once(child, 'exit')
  try {
    const got = new Map<string, string[]>()
    let count = 0
    const caughtUp = Promise.withResolvers<void>()
    const full = Promise.withResolvers<void>()
    lines.on('line', (line) => {
      if (line === 'caught up') return caughtUp.resolve()
      const [key, text] = line.split(' ') as [string, string]
      got.set(key, [...(got.get(key) ?? []), text])
      if (++count === 350) full.resolve()
    })
    await Promise.race([caughtUp.promise, exited])
    assert.equal(count, 50)
    await Promise.all(
      range(5).map(async (caller) => {
        for (const i of range(60)) await log.append([note(`k${caller}`, `late${i}`)])
      }),
    )
    await Promise.race([full.promise, exited])
    assert.equal(count, 350)
    for (const caller of range(5))
      assert.deepEqual(got.get(`k${caller}`), [
        ...range(10).map((i) => `early${i * 5 + caller}`),
        ...range(60).map((i) => `late${i}`),
      ])
  } finally {
    await kill(child, exited)
    await opened.remove()
  }
}

/** A small generator (mulberry32), so that a failing round can be repeated. */
const random = (seed: number) => (): number => {
  seed = (seed + 0x6d2b79f5) | 0
  let t = Math.imul(seed ^ (seed >>> 15), 1 | seed)
  t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
  return ((t ^ (t >>> 14)) >>> 0) / 4294967296
}

/**
 * In each round a process, started while the last round was checked, appends from many callers and prints every
 * acknowledged call; it is killed after a random number of them. Of each key the log must then have what its caller
 * wrote, from its first record on, in order, complete, each once, at least as far as was acknowledged.
 */
export const killingTheWriter = async (open: Open, rounds: number): Promise<void> => {
  const opened = await open()
  const { elsewhere } = opened
  assert.ok(elsewhere)
  await opened.log.close()
  const next = random(20)
  let log = opened.log
  let from: Offsets = {}
  let survived = 0
  const startWriter = (round: number) => {
    const started = start('writer', elsewhere, String(round))
    return { ...started, exited: once(started.child, 'exit') }
  }
  let ready = startWriter(0)
  try {
    for (const round of range(rounds)) {
      const acknowledged = new Map<string, number>()
      const target = Math.floor(next() * 400)
      const { child, lines, exited } = ready
      child.stdin.end('go\n')
      let acks = 0
      lines.on('line', (line) => {
        const [caller, call] = line.split(' ') as [string, string]
        acknowledged.set(caller, Number(call))
        if (++acks === target) process.kill(-child.pid!, 'SIGKILL')
      })
      lines.once('line', () => {
        if (target <= 1) process.kill(-child.pid!, 'SIGKILL')
      })
      const read = once(lines, 'close')
      const [code, signal] = (await exited) as [number | null, string | null]
      assert.deepEqual([code, signal], [null, 'SIGKILL'], `round ${round}: the writer ended by itself`)
      await read

      if (round + 1 < rounds) ready = startWriter(round + 1)
      log = await opened.reopen()
      const records = await all(log.read('turns', { from }))
      checkRound(round, records, acknowledged)
      survived += records.length
      from = await log.ends(['turns'])
      await log.close()
    }
    log = await opened.reopen()
    const whole = await all(log.read('turns'))
    assert.equal(whole.length, survived)
    assert.equal(new Set(whole.map((record) => textOf(record).split('|')[0])).size, survived, 'a record is there twice')
    assert.ok(survived > rounds * 20, `only ${survived} records were written in all`)
  } finally {
    await kill(ready.child, ready.exited)
    await log.close()
    await opened.remove()
  }
}

/** Records are `round.caller.half.call.i|filler`, three for each of the two keys of a call; see processes/writer.ts. */
const checkRound = (round: number, records: readonly LogRecord[], acknowledged: ReadonlyMap<string, number>): void => {
  const keys = new Map<string, number>()
  for (const record of records) {
    const text = textOf(record)
    const [id, filler] = text.split('|') as [string, string]
    const [ofRound, caller, half, call, i] = id.split('.').map(Number) as [number, number, number, number, number]
    assert.equal(ofRound, round)
    assert.equal(record.key, `${round}.${caller}.${half}`)
    assert.equal(filler, String(call % 10).repeat(filler.length))
    assert.equal(filler.length, 100 + ((call * 397) % 4000), `${id} is not whole`)
    const place = keys.get(record.key) ?? 0
    assert.equal(call * 3 + i, place, `${record.key}: ${id} stands at place ${place}`)
    keys.set(record.key, place + 1)
  }
  for (const [caller, call] of acknowledged) {
    for (const half of [0, 1]) {
      const present = keys.get(`${round}.${caller}.${half}`) ?? 0
      assert.ok(
        present >= (call + 1) * 3,
        `round ${round}: call ${call} of caller ${caller} was acknowledged, ${present} records of it are there`,
      )
    }
  }
}
