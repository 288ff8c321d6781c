/** What every adapter refuses before it queues anything. */
import { InstarError } from '@instar/events/errors'
import { FLOW } from '@instar/events/flow'
import type { Append } from './port.ts'

/** Throws `bad_record` unless the record can be stored, and found again, on every adapter. */
export const checkAppend = ({ topic, key, schema, payload, timestamp }: Append): void => {
  const fault = !Object.hasOwn(FLOW, topic)
    ? 'there is no such topic'
    : typeof key !== 'string' || key === ''
      ? 'its key is empty'
      : !key.isWellFormed() || key.includes('\0')
        ? 'its key is not plain text'
        : typeof schema !== 'string' || schema === ''
          ? 'it names no schema'
          : !(payload instanceof Uint8Array)
            ? 'its payload is not bytes'
            : !Number.isSafeInteger(timestamp) || timestamp < 0
              ? 'its timestamp is not a whole number of milliseconds'
              : undefined
  if (fault !== undefined)
    throw new InstarError('bad_record', `a record for ${topic} was refused: ${fault}`, { topic, key, schema })
}
