/**
 * `npm run nightly:vllm`: the trials on a real vLLM (CPU). Needs Python 3.10 to 3.13, 12 GB of disk and 6 GB of memory;
 * the first run fetches 2 GB. Prints the figures; exit code 0 when all of it holds.
 */
import { MODEL, trials } from '../trials.ts'
import { startVllm } from './server.ts'

trials(() => startVllm(MODEL))
