/** An answer token by token, shaded by a figure; a token is a button that shows its own figures. */
import { useState } from 'preact/hooks'
import { number } from '../format.ts'
import { html, type View } from '../html.ts'

/** `top`: the most likely tokens there. */
export type ShownToken = {
  text: string
  /** −1…1: the shade; 0: none. */
  shade: number
  figures: readonly (readonly [name: string, value: number | string | null])[]
  /** Marked: another answer does not have it here. */
  differs?: boolean
  top?: readonly { text: string; logprob: number }[]
}

export const visible = (text: string): string => (text === '' ? '∅' : text.replaceAll('\n', '⏎\n'))
const STEPS = 4

/** Class of a shade: `up1`…`up4`, `down1`…`down4`. */
const shadeClass = (shade: number): string => {
  const step = Math.min(STEPS, Math.ceil(Math.abs(shade) * STEPS))
  return step === 0 ? '' : `${shade > 0 ? 'up' : 'down'}${step}`
}

const classOf = ({ shade, differs }: ShownToken, at: boolean): string =>
  `token ${shadeClass(shade)} ${differs ? 'differs' : ''} ${at ? 'at' : ''}`

/** `stacked`: the figures stand below the tokens, not beside them. `first`: the token that is chosen at first. */
export const Tokens = ({
  tokens,
  label,
  stacked = false,
  first = 0,
}: {
  tokens: readonly ShownToken[]
  label: string
  stacked?: boolean
  first?: number
}): View => {
  const [at, setAt] = useState(first)
  const token = tokens[Math.min(at, tokens.length - 1)]
  const move = (event: KeyboardEvent): void => {
    const next = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: tokens.length - 1 }[event.key]
    if (next === undefined) return
    event.preventDefault()
    setAt(Math.max(0, Math.min(tokens.length - 1, next)))
  }
  if (!token) return html`<p class="note quiet">No tokens.</p>`
  return html`
    <div class=${stacked ? 'token-view stacked' : 'token-view'}>
      <div class="tokens" role="group" tabindex="0" aria-label=${`${label}. Arrow keys move from token to token.`}
        onKeyDown=${move}>
        ${tokens.map(
          (one, i) => html`<span class=${classOf(one, i === at)}
          onClick=${() => setAt(i)}>${visible(one.text)}</span>`,
        )}
      </div>
      <div class="token-facts" aria-live="polite">
        <p><strong>Token ${at + 1} of ${tokens.length}</strong> <code>${JSON.stringify(token.text)}</code></p>
        <dl>${token.figures.map(
          ([name, value]) =>
            html`<div><dt>${name}</dt><dd>${typeof value === 'string' ? value : number(value, 3, true)}</dd></div>`,
        )}</dl>
        ${
          token.top && token.top.length > 0
            ? html`<p class="quiet">Most likely here</p><ul class="plain">${token.top.map(
                ({ text, logprob }) =>
                  html`<li><code>${JSON.stringify(text)}</code> ${number(100 * Math.exp(logprob), 1)} %</li>`,
              )}</ul>`
            : null
        }
      </div>
    </div>
  `
}
