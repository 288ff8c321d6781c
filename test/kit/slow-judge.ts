/** A scorer on a log in memory whose judge answers on request. */
import { decodeRecord, encodeEvent, type Event, type ScoresEvent, type TurnCaptured } from '@instar/events'
import { openMemoryLog, type MemoryLog } from '@instar/log'
import { createMetrics } from '@instar/process'
import { createScorer, scorerConfig, type Judge, type Scorer } from '@instar/scorer'
import { captured, type Said, type Talk } from './scored-history.ts'

const user = (content: string): Said => ({ role: 'user', content })
const model = (content: string): Said => ({ role: 'assistant', content })

/** A line of `head` versions, each based on the one before. */
export const versions = (head: number): Event[] => {
  const events: Event[] = [
    {
      type: 'LineStarted',
      prev: '',
      policy: 'policy',
      mode: 'live',
      base: { name: 'm', sha256: 'x' },
      parent: null,
      settings: {},
      at: 1,
    },
  ]
  for (let number = 1; number <= head; number += 1) {
    events.push({
      type: 'VersionPublished',
      prev: encodeEvent(events.at(-1)!).id,
      policy: 'policy',
      number,
      update: `u${number}`,
      adapter: 'a',
      adapterBytes: 1,
      state: 's',
      blobsAt: 1,
      parent: number - 1,
      why: 'update',
      source: null,
      figures: {},
      at: 1,
    })
  }
  return events
}

/** A turn with thanks as its next state; its answer is its number. */
export const thanked = (n: number, version = 0, policy = 'policy', more: Partial<Talk> = {}): TurnCaptured[] => {
  const talk = { session: `s${n}`, version, policy, ...more }
  const said = [user('hi'), model(String(n)), user('thanks')]
  const first = captured({ ...talk, messages: [user('hi')], answer: String(n), at: 2 * n })
  return [first, captured({ ...talk, messages: said, answer: 'Bye', at: 2 * n + 1 })]
}

/** A judge that answers on request. */
export class SlowJudge implements Judge {
  readonly id = 'slow'
  needsNextState = true
  readonly asked: number[] = []
  #answers: (() => void)[] = []
  #waiting: (() => void)[] = []

  judge({ answer }: { answer: string }): Promise<{ value: number; note: string; hint: null }> {
    this.asked.push(Number(answer))
    for (const one of this.#waiting.splice(0)) one()
    return new Promise((resolve) => {
      this.#answers.push(() => resolve({ value: 1, note: '', hint: null }))
    })
  }
  answer(): void {
    for (const one of this.#answers.splice(0)) one()
  }
  async until(count: number): Promise<void> {
    while (this.asked.length < count)
      await new Promise<void>((resolve) => {
        this.#waiting.push(resolve)
      })
  }
}

export class Rig {
  readonly log: MemoryLog = openMemoryLog()
  readonly judge = new SlowJudge()
  readonly metrics = createMetrics()
  readonly scores: ScoresEvent[] = []
  #waiting: (() => void)[] = []
  scorer: Scorer | undefined
  clock = 1000

  async say(...events: Event[]): Promise<void> {
    await this.log.append(
      events.map((event) => {
        const { id: _, ...record } = encodeEvent(event)
        return record
      }),
    )
  }
  async start(judges: readonly Judge[] = [this.judge], config: object = {}): Promise<void> {
    await this.log.subscribe({
      topics: ['scores'],
      group: 'watch',
      from: 'start',
      handle: (records) => {
        for (const record of records) this.scores.push(decodeRecord(record).event as ScoresEvent)
        for (const one of this.#waiting.splice(0)) one()
      },
    })
    const onFatal = (error: Error): void => {
      throw error
    }
    const ports = { log: this.log, metrics: this.metrics, now: () => this.clock, after: () => () => undefined, onFatal }
    this.scorer = createScorer({ ...ports, judges }, scorerConfig.parse({ concurrency: 1, backlog: 5, ...config }))
    await this.scorer.start()
  }
  async scored(count: number): Promise<void> {
    while (this.scores.length < count)
      await new Promise<void>((resolve) => {
        this.#waiting.push(resolve)
      })
  }
  skipped(reason: string): number[] {
    const skips = this.scores.filter((event) => event.type === 'TurnSkipped' && event.reason === reason)
    return skips.map(({ session }) => Number(session.slice(1))).sort((a, b) => a - b)
  }
  async gauge(name: string): Promise<number> {
    return Number(
      (await this.metrics.text())
        .split('\n')
        .find((line) => line.startsWith(`${name} `))
        ?.split(' ')[1],
    )
  }
}
