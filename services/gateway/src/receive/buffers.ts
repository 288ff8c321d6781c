/** Bodies of requests are buffers outside of V8's heap. */
import { setFlagsFromString } from 'node:v8'

/**
 * V8 marks its whole heap for every 64 MiB of buffers that were made since the last time, at 200 KB a request six times
 * a second. Counted with the heap, what they hold is let go when heap and buffers together have grown, as everything else
 * is. (What later versions of V8 do by themselves; asked of those alone that know the flag.)
 */
export const countBuffersWithTheHeap = (version: string = process.versions.v8): void => {
  if (version.startsWith('13.')) setFlagsFromString('--external-memory-accounted-in-global-limit')
}
