/** What a real vLLM says of the gate's work on it. */
import { setTimeout as pause } from 'node:timers/promises'

const CANDIDATE = /^instar-gate-/

/** The names of the candidates that vLLM has loaded; empty where it does not answer. */
export const candidatesAt = async (url: string): Promise<string[]> => {
  const response = await fetch(`${url}/v1/models`).catch(() => null)
  if (!response?.ok) return []
  const { data } = (await response.json()) as { data: { id: string }[] }
  return data.map(({ id }) => id).filter((id) => CANDIDATE.test(id))
}

/** The requests under way, from vLLM's metrics; 0 where it does not answer. */
const requestsAt = async (url: string): Promise<number> => {
  const response = await fetch(`${url}/metrics`).catch(() => null)
  if (!response?.ok) return 0
  const text = await response.text()
  return [...text.matchAll(/^vllm:num_requests_running\{.*\} (\S+)$/gm)].reduce(
    (sum, [, count]) => sum + Number(count),
    0,
  )
}

/**
 * Resolves with the number of the gate's requests that are under way, beside its candidate. Nobody else may ask
 * meanwhile. Rejects after `ms`.
 */
export const measuring = async (url: string, ms: number): Promise<number> => {
  const begin = performance.now()
  for (;;) {
    const requests = (await candidatesAt(url)).length > 0 ? await requestsAt(url) : 0
    if (requests > 0) return requests
    if (performance.now() - begin > ms) throw new Error(`no measurement was seen within ${ms / 1000} s`)
    await pause(10)
  }
}
