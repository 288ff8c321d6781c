/** Rewards of people, or of keys, over time: a choice of the few that are drawn together. */
import { useMemo, useState } from 'preact/hooks'
import { reward } from '../format.ts'
import { html, type View } from '../html.ts'
import type { CallerCurve } from '../rows.ts'
import { callerName } from './callers.ts'
import { Chart, SERIES, type Series } from './chart.ts'
import type { Mark } from './plot.ts'

/** Curves that are drawn at first. */
const FIRST = 3

type CallerCurvesProps = {
  by: 'subject' | 'key'
  title: string
  curves: readonly CallerCurve[]
  marks: readonly Mark[]
  xText: (x: number) => string
}

export const CallerCurves = ({ by, title, curves, marks, xText }: CallerCurvesProps): View => {
  const [chosen, setChosen] = useState<readonly number[]>(() => curves.slice(0, FIRST).map((_, i) => i))
  const series = useMemo(
    () =>
      chosen.flatMap((i): Series[] => {
        const curve = curves[i]
        return curve ? [{ name: callerName(by, curve.name), points: curve.points.map(([x, y]) => ({ x, y })) }] : []
      }),
    [curves, chosen],
  )
  const choose = (i: number): void =>
    setChosen((all) => (all.includes(i) ? all.filter((one) => one !== i) : [...all, i].toSorted((a, b) => a - b)))
  const about = `Mean of the scores of each; up to ${SERIES} of the ${curves.length} with most scores.`
  return html`<div>
    <${Chart} title=${title} about=${about} marks=${marks} xText=${xText} xName="Time" yText=${reward}
      series=${series} />
    <fieldset class="curves"><legend class="hidden">Curves of ${title}</legend>
      ${curves.map(
        ({ name }, i) => html`<label class="check"><input type="checkbox" checked=${chosen.includes(i)}
          disabled=${!chosen.includes(i) && chosen.length >= SERIES} onChange=${() => choose(i)} />
          ${callerName(by, name)}</label>`,
      )}
    </fieldset>
  </div>`
}
