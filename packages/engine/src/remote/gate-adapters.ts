/**
 * Names and files of the adapters that the gate loads beside the served ones. A candidate gets a name that was never used
 * before at each load, so no server can answer with an earlier adapter of that name, and a folder of its own. A served
 * version has the name and the folder under which the gateways load it: it takes no second slot, and is not unloaded here.
 */
import { createHash, randomBytes } from 'node:crypto'
import { mkdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { Adapter } from '../port.ts'
import { adapterName } from '../protocols/wire.ts'
import { AdapterFiles } from './adapter-files.ts'

export class GateAdapters {
  private readonly candidateFolder: string
  private readonly candidateFiles: AdapterFiles
  private readonly servedFiles: AdapterFiles
  private readonly served = new Set<string>()
  /** Of all names for this folder of adapters; other installations on the same server have other folders. */
  private readonly prefix: string
  private readonly run = `${Date.now().toString(36)}${randomBytes(4).toString('hex')}`
  private loads = 0

  /** `folder`: of the adapters of served versions, INSTAR_ADAPTERS. */
  constructor(folder: string) {
    this.candidateFolder = join(folder, 'gate')
    this.candidateFiles = new AdapterFiles(this.candidateFolder)
    this.servedFiles = new AdapterFiles(folder)
    this.prefix = `instar-gate-${createHash('sha256').update(folder).digest('hex').slice(0, 8)}-`
  }

  setServed(sha256: string): void {
    this.served.add(sha256)
  }

  unsetServed(sha256: string): void {
    this.served.delete(sha256)
  }

  isServed(sha256: string): boolean {
    return this.served.has(sha256)
  }

  nameFor(sha256: string): string {
    if (this.served.has(sha256)) return adapterName(sha256)
    this.loads += 1
    return `${this.prefix}${sha256.slice(0, 12)}-${this.run}-${this.loads}`
  }

  /** Whether a publisher of this installation gave the name to a candidate. */
  isCandidate(name: string): boolean {
    return name.startsWith(this.prefix)
  }

  write(adapter: Adapter): Promise<string> {
    return (this.served.has(adapter.sha256) ? this.servedFiles : this.candidateFiles).write(adapter)
  }

  /** The files of served versions are the gateways' to delete. */
  prune(): Promise<void> {
    return Promise.resolve()
  }

  async removeCandidate(sha256: string): Promise<void> {
    await rm(this.candidateFiles.pathOf(sha256), { recursive: true, force: true })
  }

  /** Deletes the oldest folders of candidates that a crash left. */
  async pruneCandidates(): Promise<void> {
    await mkdir(this.candidateFolder, { recursive: true })
    await this.candidateFiles.prune(new Set())
  }
}
