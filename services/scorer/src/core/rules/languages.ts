/** The commonest thanks and complaints in four more languages. Same meaning as the English lists, far less of it. */
import type { Complaint } from './complaints.ts'

type Language = { praise: RegExp; complaints: Readonly<Partial<Record<Complaint, RegExp>>> }

export const LANGUAGES: Readonly<Record<string, Language>> = {
  de: {
    praise:
      /\b(?:danke(?:schön)?|vielen dank|dank dir|super|perfekt|prima|toll|klasse|wunderbar|genau (?:so|richtig|das)|sehr gut|gut gemacht|hervorragend|ausgezeichnet|stimmt(?! nicht)|passt|großartig|hilfreich|gefällt mir(?! nicht))\b/u,
    complaints: {
      formatted:
        /\b(?:ohne|kein\w*|weniger|keine) (?:\S+ ){0,2}(?:fett\w*|listen?|aufzählung\w*|formatierung\w*|nummerierung|kästen|sternchen|überschrift\w*)|\bfließtext\b|\bnormale[nrms]? (?:text|sätze\w*)/u,
      short:
        /\bzu (?:kurz|knapp)\b|\b(?:ausführlicher|länger|detaillierter|genauer erkl\w+)\b|\bmehr (?:details?|text|wörter|sätze)\b|\bmindestens \S+ (?:wörter|sätze)\b|\bganze sätze\b|\bin ganzen sätzen\b/u,
      long: /\bzu (?:lang|viel text|ausführlich|wortreich)\b|\b(?:kürzer|knapper|kurz fassen|fass dich kurz)\b|\bnur die (?:antwort|zahl)\b/u,
      cold: /\b(?:unfreundlich|zu (?:kalt|kühl|nüchtern|sachlich|trocken)|freundlicher|netter|wärmer|herzlicher|liebevoller|etwas wärme)\b/u,
      wrong:
        /\b(?:falsch|stimmt nicht|nicht richtig|nicht korrekt|fehler|inkorrekt|bist du sicher|das ist nicht wahr)\b/u,
      unclear: /\b(?:verstehe (?:ich )?(?:das )?nicht|unverständlich|unklar|zu kompliziert|einfacher)\b/u,
      missed:
        /\b(?:nicht was ich|nicht das,? was ich|ich (?:wollte|habe gefragt|meinte)|nochmal|noch einmal|frage nicht beantwortet)\b/u,
      poor: /\b(?:schlecht|nicht gut|nutzlos|blöd|gefällt mir nicht|enttäuschend|mag ich nicht)\b/u,
    },
  },
  fr: {
    praise:
      /\b(?:merci|parfait\w*|super|génial\w*|excellent\w*|très bien|bravo|exactement|c'est (?:bon|bien|ça|juste)|impeccable|magnifique|j'aime(?! pas)|formidable)\b/u,
    complaints: {
      formatted:
        /\b(?:sans|pas de|moins de|arrête (?:les|avec)) (?:\S+ ){0,2}(?:gras|listes?|puces|formatage|mise en forme|numéros|titres|encadrés?|astérisques)|\btexte (?:simple|normal|brut)/u,
      short:
        /\btrop (?:court\w*|bref|brève)\b|\bplus (?:long\w*|détaillé\w*|de détails?|d'explications?|de mots)\b|\bau moins \S+ (?:mots|phrases)\b|\bdéveloppe\w*|\bphrases complètes\b/u,
      long: /\btrop (?:long\w*|de texte|verbeux|détaillé)\b|\bplus (?:court\w*|bref|concis\w*)\b|\bjuste la réponse\b/u,
      cold: /\b(?:trop (?:froid\w*|sec|sèche|formel\w*)|plus (?:chaleureu\w+|gentil\w*|aimable|amical\w*|sympa))\b/u,
      wrong: /\b(?:faux|fausse|incorrect\w*|erreur|pas (?:juste|correct|vrai)|tu te trompes|c'est inexact)/u,
      unclear: /\b(?:comprends? pas|pas clair|confus|trop compliqué|plus simple)/u,
      missed: /\b(?:pas ce que (?:je|j')|je (?:voulais|demandais)|j'ai demandé|encore une fois)/u,
      poor: /\b(?:mauvais\w*|nul\w*|pas (?:bien|bon|terrible)|inutile|j'aime pas|décevant)/u,
    },
  },
  es: {
    praise:
      /\b(?:gracias|perfect[oa]|genial|excelente|muy bien|estupendo|exacto|exactamente|fantástico|buen trabajo|me (?:gusta|encanta)|correcto|eso es)\b/u,
    complaints: {
      formatted:
        /\b(?:sin|menos|nada de|no uses) (?:\S+ ){0,2}(?:negritas?|listas?|viñetas|formato|números|títulos|recuadros?|asteriscos)|\btexto (?:simple|normal|plano)/u,
      short:
        /\b(?:demasiado|muy) (?:cort[oa]|breve)\b|\bmás (?:larg[oa]|detall\w*|palabras|texto|extens[oa]|explicación)\b|\bal menos \S+ (?:palabras|frases)\b|\bfrases completas\b/u,
      long: /\b(?:demasiado|muy) (?:larg[oa]|texto)\b|\bmás (?:cort[oa]|breve|concis[oa])\b|\bsolo la respuesta\b/u,
      cold: /\b(?:(?:demasiado|muy) (?:frí[oa]|sec[oa]|formal)|más (?:amable|cálid[oa]|simpátic[oa]|cariños[oa]|amistos[oa]))/u,
      wrong:
        /\b(?:incorrect[oa]|equivocad[oa]|está mal|es falso|no es (?:correcto|cierto|verdad)|te equivocas|hay un error)\b/u,
      unclear: /\b(?:no entiendo|no está claro|confuso|demasiado complicado|más (?:simple|sencillo))/u,
      missed: /\b(?:no es lo que|yo (?:quería|pedí)|te pedí|otra vez|de nuevo)\b/u,
      poor: /\b(?:mal[oa]?\b|pésim[oa]|inútil|no me gusta|horrible)/u,
    },
  },
  zh: {
    praise: /谢谢|多谢|感谢|太好了|太棒了|很好|完美|不错|没错|正是|对了|很棒|喜欢(?!不)|厉害|赞/u,
    complaints: {
      formatted: /(?:不要|别|不用|没有|去掉|少用).{0,6}(?:加粗|粗体|列表|编号|格式|标题|方框|星号)|纯文本|普通文字/u,
      short: /太短|太简短|太简单|再?详细(?:一)?点|更详细|详细说|多说|长一点|至少.{1,6}(?:字|词|句)|展开/u,
      long: /太长|太啰嗦|啰嗦|简短(?:一)?点|短一点|简洁|只要答案/u,
      cold: /太冷|冷淡|冷冰冰|热情(?:一)?点|友好(?:一)?点|温暖|亲切(?:一)?点|温柔/u,
      wrong: /错了|不对|不正确|答错|有误|不是这样|错误/u,
      unclear: /不懂|看不懂|不明白|不清楚|太复杂/u,
      missed: /不是我(?:要|问|想)|我(?:要|问)的是|再(?:说|来|写)一(?:次|遍)|没有回答/u,
      poor: /不好|很差|太差|糟糕|没用|不喜欢|垃圾/u,
    },
  },
}
