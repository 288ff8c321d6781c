/** What a gateway knows of the log, through its real tail. */
import { weightLine } from '@instar/events'
import { initialIndex, keptSession, type Limits, type SessionIndex } from '@instar/gateway/core/session-index'
import { keep, type Kept } from '@instar/gateway/shell/kept'
import { startTail, type Tail } from '@instar/gateway/shell/tail'
import { openSnapshots, type EventLog } from '@instar/log'
import { POLICY, type History } from './histories.ts'

export type LiveGateway = { index: SessionIndex; kept: Kept; tail: Tail }

/** `folder` null: without snapshots. `save` false: it is killed after `use`. */
export const liveGateway = async <T>(log: EventLog, folder: string | null, limits: Limits, { save = true, records = 50 }: { save?: boolean; records?: number }, use: (gateway: LiveGateway) => Promise<T>): Promise<T> => {
  const index = initialIndex(limits)
  const kept = keep(folder === null ? undefined : openSnapshots(folder, { records, ms: Infinity }), POLICY, index)
  const tail = await startTail({ log, name: 'g', index, kept: { ...kept, close: () => kept.close({ save }) }, ignored: new Map(), onWeights: () => undefined, onBroken: (error) => { throw error } })
  try {
    await tail.caughtUp()
    return await use({ index, kept, tail })
  } finally {
    await tail.stop()
  }
}

/** Every session, those that were forgotten read again; who gave which answer; the versions. */
export const gatewayView = async ({ index, kept, tail }: LiveGateway, history: History): Promise<unknown> => {
  const sessions = new Map<string, unknown>()
  for (const session of history.sessions) {
    if (index.forgotten.has(session)) await tail.restore(session)
    const held = keptSession(index, session)
    sessions.set(session, held && 'state' in held ? { turns: held.state.turns, digests: [...held.state.digests], feedback: [...held.state.feedback].sort(), lastAt: held.state.lastAt, extras: held.extras.map((extra) => extra && { ...extra, tools: null }) } : null)
  }
  const line = weightLine(kept.weights, POLICY)
  const answers = [...sessions.keys()].flatMap((session) => index.fold.sessions.get(session)?.turns ?? []).map(({ turn, answer }) => [index.byStrict.get(answer.strict)?.includes(turn), index.byLoose.get(answer.loose)?.includes(turn)])
  return structuredClone({
    sessions, answers, marks: index.byMark, tip: line.chain.tip, head: line.head, frozen: line.frozen, versions: history.versions.map((version) => line.versions.get(version)),
    requests: history.requests.filter((request) => line.requests.has(request)),
  })
}
