/** A gateway with its real index, resolver and admin core; generation gives random text. */
import {
  answerKey,
  attemptsAt,
  derivedId,
  foldWeights,
  InstarError,
  openTurns,
  storeBody,
  turnId,
  weightLine,
  type Event,
  type FeedbackGiven,
  type Logged,
  type SessionClosed,
  type Topic,
  type TurnsEvent,
  type WeightsEvent,
} from '@instar/events'
import { lastAnswer } from '@instar/dialects'
import type { Snapshot } from '@instar/log'
import { decideAdmin, type Ordered } from '../../services/gateway/src/admin/core/admin.ts'
import { newSession, subjectOf } from '../../services/gateway/src/session/core/labels.ts'
import {
  answersOf,
  choose,
  locate,
  namesToLookUp,
  nameUnknown,
  settled,
  type Resolved,
} from '../../services/gateway/src/session/core/resolve.ts'
import { MemoryRows } from './memory-rows.ts'
import { overlapWith, type Overlap } from '../../services/gateway/src/session/core/overlap.ts'
import type { SessionQuery } from '../../services/gateway/src/session/core/session-query.ts'
import { evolveIndex, restore, sessionState, touch } from '../../services/gateway/src/session/core/session-index.ts'
import {
  aborted,
  captured,
  digestOf,
  sampled,
  whyNotTrainable,
  type Admitted,
  type Outcome,
} from '../../services/gateway/src/capture/core/turn.ts'
import { openSnapshot, type GatewaySnapshot } from '../../services/gateway/src/session/snapshot.ts'
import { partitionOf } from '@instar/log/partition'
import type { Note } from './history/decision.ts'
import { Process, type Keeping } from './process.ts'
import type { Folds } from './rules.ts'
import { POLICY } from './services.ts'
import { slot, type Ends } from './sim-log.ts'
import type { World } from './world.ts'

export type Said = { role: 'user' | 'assistant'; content: string }
export type Answer = { session: string; turn: string; text: string }

type Asking = { ends: Ends; waited: boolean; failed: () => void }
export type ChatCall = Asking & {
  kind: 'chat'
  messages: Said[]
  label: string | null
  side: boolean
  noTrain: boolean
  task: string | null
  gone: boolean
  /** The session of the answer that it continues, as its client has it. */
  session: string | null
  answer: (answer: Answer) => void
}
export type FeedbackCall = Asking & {
  kind: 'feedback'
  id: string
  session: string
  turn: string | null
  value: number
  done: (known: boolean) => void
}
type CloseCall = Asking & { kind: 'close'; session: string; outcome: number | null; discarded: boolean }
export type AdminCall = Asking & {
  kind: 'admin'
  ordered: Ordered
  pending: boolean
  done: (refused: string | null) => void
}
export type Call = ChatCall | FeedbackCall | CloseCall | AdminCall

/** Texts that several answers have, with and without characters that clients trim. */
const COMMON = ['Yes.', ' Yes.\n', 'No.']
const SAMPLING = { temperature: 1, topP: 1, topK: 0, seed: 1, maxTokens: 4, stop: [] }

export class Gateway extends Process<GatewaySnapshot> {
  calls: Call[] = []
  #attempts = new Map<string, number>()
  /** Sessions that were read again, with their positions. */
  #readTo = new Map<string, number>()
  /** What is left of its names after a kill. */
  readonly #rows = new MemoryRows()

  constructor(world: World, name: string, keeps: boolean) {
    super(world, name, ['turns', 'weights'], keeps)
  }

  fresh(kept: Keeping): GatewaySnapshot {
    const limits = { sessions: this.world.remembered, turns: 1000 }
    const held = { limits: { ms: 1e15, bytes: 1e9 }, now: () => this.now, open: async () => this.#rows }
    return openSnapshot(kept ? { of: (name) => kept(name) } : undefined, POLICY, limits, held)
  }

  override async open(): Promise<Map<string, number>> {
    const from = await this.state.open(this.world.log.asLog)
    const positions = Object.values(from).flatMap((offsets) =>
      Object.entries(offsets).flatMap(([topic, partitions]) =>
        Object.entries(partitions ?? {}).map(([partition, next]): [string, number] => [`${topic}/${partition}`, next]),
      ),
    )
    return new Map(positions)
  }

  override keeps(snapshot: Snapshot, topic: Topic): boolean {
    return this.snapshots.indexOf(snapshot) === (topic === 'turns' ? 0 : 1)
  }
  folds(): Folds {
    return { turns: this.state.index.fold, weights: this.state.weights }
  }
  evolve(logged: Logged<Event>): void {
    if (logged.topic === 'turns') evolveIndex(this.state.index, logged as Logged<TurnsEvent>)
    else foldWeights(this.state.weights, logged as Logged<WeightsEvent>)
  }

  override async takeSnapshot(): Promise<void> {
    await this.state.names?.write()
    await super.takeSnapshot()
  }

  /** Makes sessions with the names of the request known again. */
  #bringBack(asked: SessionQuery, resolved: Resolved | null): void {
    const { names, index } = this.state
    if (!names) return
    const wanted = namesToLookUp(asked, resolved)
    const rows = names.prefixes(wanted).flatMap((prefix) => this.#rows.under(prefix))
    for (const session of names.sessionsIn(wanted, rows)) if (!index.recent.has(session)) touch(index, session)
  }

  forget(): void {
    this.calls = []
    this.#attempts.clear()
    this.#readTo.clear()
  }

  override known(event: Event): Map<string, number> {
    const seen = new Map(this.positions)
    const to = 'session' in event ? (this.#readTo.get(event.session) ?? 0) : 0
    if ('session' in event) {
      const name = this.#slotOf(event.session)
      seen.set(name, Math.max(seen.get(name) ?? 0, to))
    }
    return seen
  }

  waits(): string | null {
    return this.calls.length === 0 ? null : `${this.calls.length} calls`
  }

  /** Accepts a request, which can wait for everything that is on the log now. */
  get ends(): Ends {
    return this.world.log.ends(this.topics)
  }

  act(): boolean {
    if (this.calls.length === 0) return false
    const call = this.world.random.pick(this.calls)
    const done =
      call.kind === 'chat'
        ? this.#chat(call)
        : call.kind === 'feedback'
          ? this.#feedback(call)
          : call.kind === 'close'
            ? this.#close(call)
            : this.#admin(call)
    if (done) this.#drop(call)
    return true
  }

  #drop(call: Call): void {
    this.calls = this.calls.filter((other) => other !== call)
  }

  /** The caller gets the error of the log. */
  #refuse(call: Call): () => void {
    return () => {
      this.#drop(call)
      call.failed()
    }
  }

  #slotOf(session: string): string {
    return slot('turns', partitionOf(session, 2))
  }

  /** An evicted session is read from the log again, up to what this build can read. */
  #restore(session: string): void {
    const { log } = this.world
    const all = log.partitions.get(this.#slotOf(session))!
    const end = this.newer ? -1 : all.findIndex(({ newer }) => newer?.stops)
    const readable = end < 0 ? all : all.slice(0, end)
    const records = readable.flatMap((record) => (record.key === session ? (log.decode(record, this.newer) ?? []) : []))
    restore(this.state.index, session, records as Logged<TurnsEvent>[])
    this.#readTo.set(session, readable.length)
  }

  #known(session: string): void {
    if (this.state.index.forgotten.has(session)) this.#restore(session)
  }

  #chat(call: ChatCall): boolean {
    const { random } = this.world
    const { index } = this.state
    const { messages } = call
    const digest = digestOf({ messages, tools: [] })
    const answers = answersOf(messages)
    const last = answers.at(-1)
    const before = last ? digestOf({ messages: messages.slice(0, last.at), tools: [] }) : null
    const asked: SessionQuery = {
      key: null,
      label: call.label === null ? null : { source: 'header', value: call.label },
      messages,
      answers,
      digest,
      before,
      subject: null,
    }
    let step = locate(index, asked)
    for (; step.do === 'restore'; step = locate(index, asked)) this.#restore(step.session)
    const overlapOf = overlapWith(asked)
    const overlapsOf = (): Overlap[] =>
      step.do === 'compare' ? step.candidates.map(({ turn }) => overlapOf(this.world.bodies.get(turn) ?? [])) : []
    let overlaps = overlapsOf()
    if (!settled(index, asked, step, overlaps) && !call.waited) {
      call.waited = this.hasRead(call.ends)
      return false
    }
    const found = (): Resolved | null =>
      step.do === 'found'
        ? step.resolved
        : step.do === 'compare'
          ? choose(index, asked, step.candidates, overlaps)
          : null
    if (call.waited) {
      this.#bringBack(asked, found())
      step = locate(index, asked)
      overlaps = overlapsOf()
    }
    const { session, source } = found() ?? nameUnknown(index, asked, newSession(null, random.hex(16)))
    this.#known(session)
    touch(index, session)
    const line = weightLine(this.state.weights, POLICY)
    const background = call.task === null && random.chance(0.25)
    const admitted: Admitted = {
      session,
      policy: POLICY,
      version: line.head,
      adapter: line.versions.get(line.head)?.adapter ?? null,
      group: random.hex(8),
      candidates: background ? 3 : call.task === null && random.chance(0.1) ? 2 : 1,
      dialect: 'chat',
      kind: call.side ? 'side' : 'main',
      labelSource: source,
      userTurn: null,
      subject: subjectOf(null, null, session),
      key: null,
      task: call.task,
      digest,
      body: storeBody(Buffer.from(JSON.stringify({ messages })), null).stored,
      ...lastAnswer(messages),
      prompt: { from: null, prefix: 0, ids: [1], length: 1 },
      tokens: 'exact',
      offPrefix: false,
      engine: 'sim',
      at: this.now,
    }
    this.#capture(call, admitted, background, before, attemptsAt(sessionState(index, session), digest))
    return true
  }

  #capture(call: ChatCall, admitted: Admitted, background: boolean, before: string | null, attempts: number): void {
    const { random } = this.world
    const answers: Answer[] = []
    const shown = background ? 1 : admitted.candidates
    const note: Note = { session: call.session ?? call.label, before }
    for (let candidate = 0; candidate < shown; candidate += 1) {
      const { own, outcome, text } = this.#generate(call, admitted, candidate, attempts)
      if (call.gone && random.chance(0.5)) {
        this.append(aborted(admitted, own, outcome, 'client_gone'), note)
        continue
      }
      this.append(
        captured(admitted, own, outcome, 'stop'),
        note,
        () => {
          answers.push({ session: admitted.session, turn: own.turn, text })
          if (background) this.#sample(call, admitted, note)
          if (answers.length === shown) call.answer(random.pick(answers))
        },
        this.#refuse(call),
      )
    }
    if (random.chance(0.1))
      this.append({ type: 'SessionLinked', session: admitted.session, parent: random.pick(['p1', 'p2']), at: this.now })
  }

  /** The other candidates of an answered request; some never come. */
  #sample(call: ChatCall, admitted: Admitted, note: Note): void {
    for (let candidate = 1; candidate < admitted.candidates; candidate += 1) {
      const { own, outcome } = this.#generate(call, admitted, candidate, 0)
      if (this.world.random.chance(0.8)) this.append(sampled(admitted, own, outcome, 'stop'), note)
    }
  }

  #generate(call: ChatCall, admitted: Admitted, candidate: number, attempts: number) {
    const { random, off } = this.world
    const { now } = this
    const random128 =
      off === 'execId'
        ? derivedId('exec', admitted.digest, candidate, this.#attempt(admitted.digest, attempts)).slice(0, 32)
        : random.hex(16)
    const turn = turnId(admitted.session, random128)
    const text = random.chance(0.3) ? random.pick(COMMON) : `a${random.hex(4)}`
    this.world.bodies.set(turn, call.messages)
    const reason = whyNotTrainable({
      kind: admitted.kind,
      tokens: 'exact',
      temperature: 1,
      optedOut: call.noTrain,
      learning: true,
      text,
    })
    const outcome: Outcome = {
      said: {
        text,
        ids: [2],
        logprobs: [-1],
        answer: answerKey(text, []),
        shown: { content: text, reasoning: '', calls: [] },
      },
      toolCallIds: [],
      reason,
      firstTokenAt: now,
      finishedAt: now,
    }
    return { own: { turn, candidate, sampling: SAMPLING }, outcome, text }
  }

  #attempt(digest: string, seen: number): number {
    const attempt = Math.max(seen, this.#attempts.get(digest) ?? 0)
    this.#attempts.set(digest, attempt + 1)
    return attempt
  }

  #feedback(call: FeedbackCall): boolean {
    const { index } = this.state
    this.#known(call.session)
    const known = call.turn === null ? sessionState(index, call.session) !== undefined : index.fold.turns.has(call.turn)
    if (!known) {
      if (call.waited) {
        call.done(false)
        return true
      }
      call.waited = this.hasRead(call.ends)
      return false
    }
    const event: FeedbackGiven = {
      type: 'FeedbackGiven',
      id: call.id,
      session: call.session,
      turn: call.turn,
      value: call.value,
      comment: null,
      subject: '',
      key: null,
      at: this.now,
    }
    this.append(event, {}, () => call.done(true), this.#refuse(call))
    return true
  }

  /** A client reports that nothing follows, and how its episode ended. */
  #close(call: CloseCall): boolean {
    if (!this.hasRead(call.ends)) return false
    this.#known(call.session)
    const held = sessionState(this.state.index, call.session)
    const open = openTurns(held)
    const ends = call.outcome !== null && held?.outcome === null
    const discarded = call.discarded && (held?.turns ?? []).some(({ discardedBy }) => discardedBy === null)
    const event: SessionClosed = {
      type: 'SessionClosed',
      session: call.session,
      open,
      why: 'client',
      at: this.now,
      discarded,
      outcome: ends ? call.outcome : null,
      task: null,
    }
    if (open.length > 0 || ends || discarded) this.append(event)
    return true
  }

  #admin(call: AdminCall): boolean {
    if (call.pending || !this.hasRead(call.ends)) return false
    const { ordered } = call
    try {
      const step = decideAdmin(weightLine(this.state.weights, POLICY), ordered, this.now)
      if (step.do === 'done') {
        this.world.answered(this.name, ordered, new Map(this.positions), null)
        call.done(null)
        return true
      }
      call.pending = true
      this.append(
        step.event,
        { ordered },
        () => {
          call.pending = false
          call.ends = this.world.log.ends(['weights'])
        },
        this.#refuse(call),
      )
      return false
    } catch (error) {
      if (!(error instanceof InstarError) || error.code === 'log_gap') throw error
      this.world.answered(this.name, ordered, new Map(this.positions), error.code)
      call.done(error.code)
      return true
    }
  }
}
