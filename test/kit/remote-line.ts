/** A line whose trainer works on a Tinker server; the test gives the verdicts of the gate. */
import {
  answerKey,
  contentSha,
  decodeRecord,
  encodeEvent,
  initialUpdates,
  foldUpdates,
  initialWeights,
  foldWeights,
  TOPICS,
  updateLine,
  weightLine,
  written,
  type Event,
  type Logged,
  type UpdateComputed,
  type UpdatesEvent,
  type WeightsEvent,
} from '@instar/events'
import { openMemoryLog, type EventLog, type MemoryLog } from '@instar/log'
import type { LearningEngine, Model, TrainItem } from '@instar/engine/port'
import { createTrainer, trainerConfig, type Trainer, type TrainerPorts } from '@instar/trainer'
import type { Metrics } from '@instar/process'
import type { TrainingServer } from '@instar/tinker/port'
import { exampleSettings } from './golden/policy/example.ts'
import { SCRIPTED_MODEL } from './scripted-learner.ts'

/** The example model behind a tokenizer that gives a hinted prompt the ids of `hinted`. */
export const exampleModel = (hinted: readonly number[]): Model => ({
  ...SCRIPTED_MODEL,
  name: 'example',
  sha256: 'example',
  contextLength: 128,
  vocabulary: 60,
  promptIds: () => [...hinted],
})

const BODY = Buffer.from(JSON.stringify({ messages: [{ role: 'user', content: 'q' }] }))

let clock = 1_000
export const now = (): number => (clock += 1)

/** A turn and its score: the reward is 1 or −1, as the item's advantage; one with a hint prompt has a hint. */
const turnOf = (item: TrainItem, n: number, version: number): Event[] => {
  const turn = `s${n}.${n}`
  const common = { turn, session: `s${n}`, policy: 'policy', version, subject: `u${n % 3}` }
  return [
    {
      ...common,
      type: 'TurnCaptured',
      finish: 'stop',
      adapter: null,
      group: turn,
      candidate: 0,
      candidates: 1,
      dialect: 'chat',
      kind: 'main',
      labelSource: 'header',
      userTurn: null,
      key: null,
      digest: String(n),
      body: {
        from: null,
        prefix: 0,
        suffix: 0,
        written: { keyId: null, bytes: BODY },
        blob: null,
        length: BODY.length,
        sha256: contentSha(BODY),
      },
      after: null,
      stateFrom: 0,
      prompt: { from: null, prefix: 0, ids: [...item.prompt], length: item.prompt.length },
      sampling: { temperature: item.temperature, topP: 1, topK: 0, seed: 1, maxTokens: 50, stop: [] },
      tokens: 'exact',
      ids: [...item.completion],
      logprobs: [...item.behaviourLogprobs],
      text: written('a'),
      toolCallIds: [],
      answer: answerKey(String(n), []),
      trainable: true,
      reason: null,
      offPrefix: false,
      engine: 'e',
      at: now(),
      firstTokenAt: clock,
      finishedAt: clock,
    },
    {
      ...common,
      type: 'TurnScored',
      verdicts: [],
      cause: 'c',
      rank: null,
      at: now(),
      reward: item.advantage > 0 ? 1 : -1,
      judge: 'j',
      hint: item.hintPrompt ? written('hint') : null,
      hintJudge: item.hintPrompt ? 'j' : null,
    },
  ]
}

export type RemoteLine = {
  log: MemoryLog
  append(...events: Event[]): Promise<void>
  turns(items: readonly TrainItem[], from?: number, version?: number): Promise<void>
  records(): Promise<Logged[]>
  events<T extends Event['type']>(type: T): Promise<Extract<Event, { type: T }>[]>
  /** Accepts the last update, or rejects it. */
  verdict(accepted: boolean): Promise<void>
  /** Moves the head. */
  rollback(to: number): Promise<void>
}

export const openLine = async (
  log = openMemoryLog(),
  base: Pick<Model, 'name' | 'sha256'> = { name: 'example', sha256: 'example' },
): Promise<RemoteLine> => {
  const append = async (...events: Event[]): Promise<void> => {
    for (const event of events) {
      const { id: _, ...record } = encodeEvent(event)
      await log.append([record])
    }
  }
  const records = async (): Promise<Logged[]> => {
    const found: Logged[] = []
    for (const topic of TOPICS.filter((one) => one !== 'blobs'))
      for await (const batch of log.read(topic)) for (const record of batch) found.push(decodeRecord(record))
    return found
  }
  const folded = async () => {
    const [updates, weights] = [initialUpdates(), initialWeights()]
    for (const logged of await records()) {
      if (logged.topic === 'updates') foldUpdates(updates, logged as Logged<UpdatesEvent>)
      if (logged.topic === 'weights') foldWeights(weights, logged as Logged<WeightsEvent>)
    }
    return { updates: updateLine(updates, 'policy'), weights: weightLine(weights, 'policy') }
  }
  if ((await folded()).weights.started === null)
    await append({
      type: 'LineStarted',
      prev: '',
      policy: 'policy',
      mode: 'live',
      base: { name: base.name, sha256: base.sha256 },
      parent: null,
      settings: {},
      at: now(),
    })
  return {
    log,
    append,
    records,
    turns: async (items, from = 0, version = 0) =>
      append(...items.flatMap((item, at) => turnOf(item, from + at, version))),
    async events(type) {
      return (await records()).map(({ event }) => event).filter((event) => event.type === type) as never
    },
    async verdict(accepted) {
      const { updates, weights } = await folded()
      const update = updates.byId.get(updates.last)?.update
      if (!update) throw new Error('the last batch has no update')
      const { adapter, adapterBytes, state, blobsAt } = update.event
      const common = { prev: weights.chain.tip, policy: 'policy', update: update.id, adapter, parent: weights.head }
      await append(
        accepted
          ? {
              type: 'VersionPublished',
              ...common,
              number: weights.last + 1,
              adapterBytes,
              state,
              blobsAt,
              why: 'update',
              source: null,
              figures: {},
              at: now(),
            }
          : { type: 'VersionRejected', ...common, reason: 'kl', figures: {}, evidence: [], at: now() },
      )
    },
    async rollback(to) {
      const { weights } = await folded()
      await append({
        type: 'HeadMoved',
        prev: weights.chain.tip,
        policy: 'policy',
        from: weights.head,
        to,
        who: 't',
        why: '',
        request: `r${now()}`,
        freeze: false,
        at: now(),
      })
    },
  }
}

export const STEP = { ...exampleSettings, klParentMax: 1e9, klBaseMax: 1e9, maxGradNorm: 1e9, learningRate: 1e-3 }

export type Started = { trainer: Trainer; fatal: Error[] }

/** Starts a trainer on the line: of a server, or embedded. */
export const startTrainer = async (
  log: EventLog,
  engine: ({ server: TrainingServer; name?: string } | { learner: LearningEngine }) & {
    metrics?: Metrics
    onWait?: NonNullable<TrainerPorts['onWait']>
  },
  model: Model,
  config: Record<string, unknown> = {},
): Promise<Started> => {
  const fatal: Error[] = []
  const { seed: _, ...step } = STEP
  const given =
    'server' in engine
      ? { server: { connect: async () => engine.server, trainer: engine.name ?? 't1', baseModel: null } }
      : { learner: engine.learner }
  const trainer = createTrainer(
    {
      log,
      model,
      now,
      onFatal: (error: Error) => void fatal.push(error),
      ...given,
      ...(engine.metrics ? { metrics: engine.metrics } : {}),
      ...(engine.onWait ? { onWait: engine.onWait } : {}),
    },
    trainerConfig.parse({ batchSize: 10, batchMax: 10, step: { ...step, epochs: 2 }, ...config }),
  )
  await trainer.start()
  return { trainer, fatal }
}

/** Polls until the trainer waits for `why`, or reports the first fatal error. */
export const untilWaits = async ({ trainer, fatal }: Started, ...why: string[]): Promise<string> => {
  for (;;) {
    if (fatal[0]) throw fatal[0]
    if (why.includes(trainer.waits())) return trainer.waits()
    await new Promise((resolve) => {
      setTimeout(resolve, 5)
    })
  }
}

export type { UpdateComputed }
