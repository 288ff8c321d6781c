/** Streaming decoding of one answer: what comes out is whole characters, and all of it equals `decode` of all ids. */
import type { TextTokenizer } from './tokenizer.ts'

export class Detokenizer {
  private readonly tokenizer: Pick<TextTokenizer, 'bytesOf'>
  // Holds back the bytes of an unfinished character; bytes that can begin none become U+FFFD at once.
  private readonly decoder = new TextDecoder('utf-8', { ignoreBOM: true })

  constructor(tokenizer: Pick<TextTokenizer, 'bytesOf'>) {
    this.tokenizer = tokenizer
  }

  push(id: number): string {
    return this.decoder.decode(this.tokenizer.bytesOf(id), { stream: true })
  }

  /** The end: an unfinished character becomes U+FFFD. */
  end(): string {
    return this.decoder.decode()
  }
}
