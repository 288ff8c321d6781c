/** What an update did with the tokens of a turn: weight, mask, and the term of the distillation from a hint. */
import { number } from '../format.ts'
import { html, type View } from '../html.ts'
import type { LearnedRow } from '../rows.ts'

type Figure = readonly [name: string, value: number | string | null]

export const learnedFigures = (learned: LearnedRow, at: number): Figure[] => {
  const { old, importance, masked, advantage, teacher, hint_dropped: dropped, parent_version: parent } = learned
  const [before, weight, taught] = [old[at] ?? null, importance[at] ?? null, teacher?.[at] ?? null]
  return [
    [`log-prob before the update (version ${parent})`, before],
    ['weight', masked ? '0, masked' : number(weight, 3)],
    ['pull of the reward', weight === null ? null : weight * advantage],
    ...(taught === null || before === null
      ? []
      : ([
          ['log-prob of the teacher', taught],
          [dropped ? 'pull of the hint' : 'pull of the hint (OPD)', dropped ? '0, hint left out' : taught - before],
        ] as Figure[])),
  ]
}

const NO_TEACHER: Readonly<Record<string, string>> = {
  no_hint: 'No judge gave a hint with the score, so there is no distillation (OPD).',
  not_negative: 'The answer’s own score is not negative, so its hint was not used.',
  loss: 'The update’s loss (binary) uses no hints.',
  too_long: 'Prompt, hint and answer together are longer than the context, so the hint was not used.',
  contrast:
    'The hint was used with a contrast (opdContrast). Its term needs the probabilities of all tokens, not recorded.',
}

const Hint = ({ learned }: { learned: LearnedRow }): View => {
  const { no_teacher: none, hint_dropped: dropped, opd_weight: weight } = learned
  if (none !== null) return html`<p>${NO_TEACHER[none] ?? none}</p>`
  if (dropped)
    return html`<p>The hint was left out: with it in the prompt the base model finds this answer no less likely.</p>`
  return html`
    <p>The hint was distilled (OPD, weight ${number(weight, 2)}): the teacher is the base model with the hint in the
      prompt. A pull above 0 makes the token likelier, one below 0 less likely.</p>
  `
}

export const LearnedNote = ({ learned }: { learned: LearnedRow }): View => {
  const { masked, ratio, ratio_max: most, importance_max: cap, parent_version: parent } = learned
  return html`
    <div class="note" role="status">
      <p><strong>${
        masked ? 'Masked: the reward of this turn changed nothing.' : 'Not masked: every token counted.'
      }</strong> ${
        `Version ${parent}, from which the update started, gives the answer’s tokens ${number(ratio, 3)} times ` +
        `the probability with which they were sampled (geometric mean). Above ${number(most, 2)} or below ` +
        `${number(1 / most, 2)} a turn is masked. A token’s weight is its own such ratio, at most ${number(cap, 1)}.`
      }</p>
      <${Hint} learned=${learned} />
      <details><summary>Where these figures come from</summary><p>The batch’s settings, the advantage and the log-probs
        when sampled are recorded. Log-probs before the update and of the teacher are computed again now, by the engine
        that serves, and the weights from them by the trainer’s own function; the last digits may differ from the
        trainer’s. The loss divides both pulls by the tokens of its batch, and sums the hint’s over all tokens that
        could have stood there; shown is its part at the token that did.</p></details>
    </div>
  `
}
