/** Whether the requests of an update on a server are those that follow from the log: they are made again, byte for byte. */
import { InstarError, type BatchSealed, type BatchState, type SentRequest, type TrainerScored } from '@instar/events'
import { forwardRequests } from '@instar/tinker'
import type { Prepared } from '@instar/tinker/port'
import { saveRequests } from './finish.ts'
import { itemsOf, NOT_FINITE } from './items.ts'
import { capabilitiesOf, sharesRows, type ReadPorts } from './ports.ts'
import { answerRows, referenceRows, scoreRows, stepRequests, updateOf } from './requests.ts'

type Recorded = readonly Pick<SentRequest, 'kind' | 'of' | 'seq' | 'sha256'>[]

/** The rows that a scoring sent: those of the first include the ones that were left out by their log-probabilities. */
const sentRows = (sealed: BatchSealed, { pass, rows, dropped }: TrainerScored): readonly { turn: string }[] => {
  if (pass > 0) return rows
  const unsent = new Set(dropped.flatMap(({ turn, reason }) => (reason === NOT_FINITE ? [] : [turn])))
  return sealed.items.filter(({ turn }) => !unsent.has(turn))
}

/** The first request that differs, in words; null if all are equal. */
const difference = (made: readonly Prepared[], recorded: Recorded, what: string): string | null => {
  if (made.length !== recorded.length)
    return `${what}: ${made.length} requests follow from the log, ${recorded.length} are recorded`
  const at = made.findIndex(({ sha256 }, index) => sha256 !== recorded[index]?.sha256)
  return at < 0 ? null : `${what}: request ${recorded[at]?.seq} (${recorded[at]?.kind}) has other bytes than recorded`
}

const firstSeq = (requests: Recorded): number => requests[0]?.seq ?? 1

/**
 * Null if every request of the update has the recorded bytes; otherwise the first difference. Throws errors of records and
 * blobs that cannot be read.
 */
export const verifyRequests = async (
  ports: ReadPorts,
  { sealed, journal, update }: BatchState,
): Promise<string | null> => {
  const remote = update?.event.remote
  if (!remote) throw new InstarError('internal', `batch ${sealed.number} was not computed on a server`)
  const bound = journal?.binding
  if (!journal || !bound || journal.model !== remote.model)
    return `the records of the model ${remote.model} are missing`
  const { wire } = capabilitiesOf(bound)
  const shared = sharesRows(sealed, bound)
  for (const { event } of journal.scored) {
    const items = await itemsOf(ports, sealed, sentRows(sealed, event))
    const forwards = event.requests.filter(({ kind }) => kind === 'forward')
    const [own, reference] = (['trained', 'reference'] as const).map((of) => forwards.filter((one) => one.of === of))
    const { plain, hinted } = referenceRows(items, shared)
    const rows = scoreRows(answerRows(items, shared))
    const made = forwardRequests(wire, bound.model, firstSeq(own ?? []), rows)
    const found =
      difference(made, own ?? [], `scoring ${event.pass}`) ??
      (event.pass > 0
        ? null
        : difference(
            forwardRequests(wire, bound.reference, firstSeq(reference ?? []), scoreRows(plain, hinted)),
            reference ?? [],
            'scoring of the base',
          ))
    if (found) return found
  }
  for (const { event } of journal.requested) {
    const made = stepRequests(
      bound,
      firstSeq(event.requests),
      sealed,
      await updateOf(ports, sealed, journal, event.pass),
    )
    const found = difference(made, event.requests, `step ${event.pass + 1}`)
    if (found) return found
  }
  return difference(saveRequests(bound, firstSeq(remote.requests), sealed.number), remote.requests, 'saving')
}
