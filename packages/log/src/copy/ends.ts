/** Up to where a log in use is copied or archived. */
import { TOPICS, type Topic } from '@instar/events/flow'
import type { CopySource, Offsets } from '../port.ts'

const REFERRING: readonly Topic[] = TOPICS.filter((topic) => topic !== 'blobs')

/**
 * The ends of all topics, those of `blobs` last: a blob is durable before the record that refers to it is appended, so that the
 * blobs of all records before the ends are before them, too. A call for all topics may ask the brokers at once.
 */
export const endsOfAll = async (log: Pick<CopySource, 'ends'>): Promise<Offsets> => ({
  ...(await log.ends(REFERRING)),
  ...(await log.ends(['blobs'])),
})
