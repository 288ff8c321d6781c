/** The lineage with older parts, which are read when asked for. */
import { useMemo, useState } from 'preact/hooks'
import { get, type ApiError } from '../api.ts'
import type { Lineage, OlderLineage } from '../rows.ts'
import { withOlder } from './older-lineage.ts'

type Older = {
  /** Null while nothing is read. */
  all: Lineage | null
  error: ApiError | null
  load: () => Promise<void>
}

/** `newest` may be read again meanwhile: what was shown stays. */
export const useOlder = (newest: Lineage | null): Older => {
  const [older, setOlder] = useState<OlderLineage | null>(null)
  const [error, setError] = useState<ApiError | null>(null)
  const all = useMemo(() => (newest && older ? withOlder(newest, older) : newest), [newest, older])
  const load = async (): Promise<void> => {
    if (!all?.next) return
    setError(null)
    try {
      const further = await get<OlderLineage>(`/v1/dashboard/versions?until=${encodeURIComponent(all.next)}`)
      setOlder(withOlder(all, further))
    } catch (failure) {
      setError(failure as ApiError)
    }
  }
  return { all, error, load }
}
