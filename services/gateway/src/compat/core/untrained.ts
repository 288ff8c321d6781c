/** Trajectories whose turns are not trainable, as their clients registered them. */
import { Remembered } from './remembered.ts'

/** Limited per key, so that registrations of one key cannot make the trajectories of another trainable. */
export class Untrained {
  private readonly byKey = new Map<string, Remembered<true>>()
  private readonly most: number

  /** `most`: trajectories per key; beyond it, the one that was registered longest ago is trainable again. */
  constructor(most = 10_000) {
    this.most = most
  }

  add(key: string | null, trajectory: string): void {
    const own = this.byKey.get(key ?? '') ?? new Remembered<true>({ most: this.most })
    this.byKey.set(key ?? '', own)
    own.set(trajectory, true)
  }

  delete(key: string | null, trajectory: string): void {
    this.byKey.get(key ?? '')?.delete(trajectory)
  }

  has(key: string | null, trajectory: string): boolean {
    return this.byKey.get(key ?? '')?.get(trajectory) ?? false
  }
}
