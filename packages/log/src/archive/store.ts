/** Where an archive is kept: a folder (`folder.ts`) or an object store (`s3.ts`). */

/** `tag`: changes whenever the object does. */
export type Stored = { bytes: Buffer; tag: string }

/** All methods throw `archive_unavailable` if the place cannot be reached or refuses. */
export interface ArchiveStore {
  /** For messages: the folder, or `s3://bucket/prefix`. No credentials. */
  readonly address: string
  /** Undefined: there is no such object. Throws `archive_damaged` for an object of more than `maxBytes`. */
  read(name: string, maxBytes: number, signal?: AbortSignal): Promise<Stored | undefined>
  /** Durable when it resolves. A name always has the same bytes, so that writing it again changes nothing. */
  write(name: string, bytes: Buffer, signal?: AbortSignal): Promise<void>
  /**
   * Replaces an object in one step: a reader sees the old or the new one, whenever the process ends. `tag`: of the
   * object that is replaced; undefined: there is none. Throws `archive_differs` if another process wrote it meanwhile.
   * Resolves with the new tag.
   */
  replace(name: string, bytes: Buffer, tag: string | undefined, signal?: AbortSignal): Promise<string>
  close(): Promise<void>
}
