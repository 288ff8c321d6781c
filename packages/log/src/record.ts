/** Validation of records before an append, for all adapters. */
import { InstarError } from '@instar/events/errors'
import { FLOW } from '@instar/events/flow'
import type { Append } from './port.ts'

/** Throws `bad_record` unless every adapter can store the record and return it unchanged. */
export const checkAppend = ({ topic, key, schema, payload, timestamp }: Append): void => {
  const fault = !Object.hasOwn(FLOW, topic)
    ? 'the topic does not exist'
    : typeof key !== 'string' || key === ''
      ? 'the key must be a non-empty string'
      : !key.isWellFormed() || key.includes('\0')
        ? 'the key contains a lone surrogate or a NUL character'
        : typeof schema !== 'string' || schema === ''
          ? 'the schema must be a non-empty string'
          : !(payload instanceof Uint8Array)
            ? 'the payload must be a Uint8Array'
            : !Number.isSafeInteger(timestamp) || timestamp < 0
              ? 'the timestamp must be a non-negative integer (milliseconds)'
              : undefined
  if (fault !== undefined)
    throw new InstarError('bad_record', `invalid record for topic ${topic}: ${fault}`, { topic, key, schema })
}
