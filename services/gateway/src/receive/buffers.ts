/** Request bodies are buffers outside V8's heap. */
import { setFlagsFromString } from 'node:v8'

/**
 * V8 marks its whole heap after every 64 MiB of new external buffers, which at 200 KB per request is six times a
 * second. With this flag, V8 counts buffers with the heap and collects when both together have grown. Later versions of
 * V8 do so by default; the flag is set only in versions that have it.
 */
export const countBuffersWithTheHeap = (version: string = process.versions.v8): void => {
  if (version.startsWith('13.')) setFlagsFromString('--external-memory-accounted-in-global-limit')
}
