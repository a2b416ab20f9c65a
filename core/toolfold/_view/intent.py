"""What a query asks for and what a tool does: to read, create, change, remove, send or run (SPEC FND-6).

Both are told by their verbs; of a tool its annotations count first. A word that is not in the table tells nothing;
it has the usual verbs of ten languages, by which queries in these are told and tools that are named so.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from .._plain import table

READ = "read"

_ROWS = (
    (
        READ,
        """
        get browse describe display enumerate explain fetch find list look lookup query read retrieve return search see
        show tell view
        """,
    ),
    (READ, "check calculate compare count inspect measure monitor scan summarise summarize watch locate"),
    (
        "create",
        "create add build clone compose copy draft duplicate fork generate insert make new register upload write",
    ),
    (
        "change",
        """
        change adjust assign close configure convert correct disable edit enable fill fix label lock mark merge modify
        move patch pause put reassign rename reopen replace reschedule resize restore revise rewrite scale set tag
        toggle transition unlock update upsert
        """,
    ),
    ("remove", "remove archive cancel clear delete destroy discard drop erase purge reset revoke uninstall unset wipe"),
    ("send", "send answer email forward notify pay post publish push reply share submit transfer"),
    (
        "run",
        """
        run apply approve click commit deploy drag execute install invoke launch play press reboot restart rollback
        start stop trigger type
        """,
    ),
    # -- German, French, Spanish and Portuguese, Italian, Dutch; what is an English word, too, is left out
    (
        READ,
        """
        zeig zeige zeigen anzeigen liste auflisten lies lese lesen suche suchen finde finden hole holen abrufen nenne
        nennen schau schaue anschauen ansehen prüfe prüfen vergleiche vergleichen
        affiche affichez afficher montre montrez montrer listez lister lis lisez lire cherche cherchez chercher trouve
        trouvez trouver recherche rechercher consulte consulter récupère récupérer regarde regarder vois voir obtenir
        muestra muéstrame muestre mostrar lista listar lee leer busca busque buscar encuentra encontrar ver consulta
        consultar obtén obtener dime mira mirar mostre leia ler encontre procura procurar exibe exiba exibir veja obter
        mostra mostrami mostrare elenca elencare leggi leggere cerca cercare trova trovare vedi vedere visualizza
        visualizzare ottieni ottenere
        toon tonen lees lezen zoek zoeken opzoeken vind vinden bekijk bekijken zien haal halen weergeven
        """,
    ),
    (
        "create",
        """
        erstelle erstellen anlegen hinzufügen schreib schreibe schreiben kopiere kopieren erzeuge erzeugen speichere
        speichern
        crée créez créer ajoute ajoutez ajouter écris écrire rédige rédiger copie copier génère générer
        crea crear añade añadir agrega agregar escribe escribir copia copiar genera generar cria crie criar adiciona
        adicione adicionar escreve escreva escrever gerar
        creare aggiungi aggiungere scrivi scrivere copiare generare
        maak maken aanmaken toevoegen schrijf schrijven kopieer kopiëren
        """,
    ),
    (
        "change",
        """
        ändere ändern bearbeite bearbeiten verschiebe verschieben umbenennen aktualisiere aktualisieren schliesse
        schliessen ersetze ersetzen
        modifie modifiez modifier renomme renommer déplace déplacer changer ferme fermer remplace remplacer corriger
        modifica modificar edita editar mueve mover cierra cerrar cambia cambiar renombra renombrar actualiza
        actualizar reemplaza reemplazar altera altere alterar fechar feche mudar atualiza atualize atualizar renomear
        modificare sposta spostare chiudi chiudere aggiorna aggiornare rinomina rinominare cambiare
        wijzig wijzigen verplaats verplaatsen hernoem hernoemen sluit sluiten bewerk bewerken vervang vervangen
        """,
    ),
    (
        "remove",
        """
        lösche löschen loesche loeschen entferne entfernen storniere stornieren archiviere archivieren
        supprime supprimez supprimer efface effacer enlève enlever retirer annule annuler archiver
        elimina eliminar borra borrar quita quitar cancela cancelar archiva archivar suprime suprimir exclui exclua
        excluir apaga apague apagar remova remover
        cancella cancellare rimuovi rimuovere eliminare annulla annullare
        verwijder verwijderen annuleer annuleren archiveer archiveren
        """,
    ),
    (
        "send",
        """
        sende senden schick schicke schicken verschicke verschicken antworte antworten teilen veröffentliche
        veröffentlichen bezahle bezahlen überweise überweisen
        envoie envoyez envoyer réponds répondre partage partager publie publier transférer
        envía enviar responde responder comparte compartir publica publicar paga pagar reenvía reenviar envia envie
        invia inviare rispondi rispondere condividi condividere pubblica pubblicare pagare
        stuur sturen verstuur versturen verzend verzenden beantwoord beantwoorden betaal betalen
        """,
    ),
    (
        "run",
        """
        starte starten stoppe stoppen installiere installieren buche buchen ausführen
        lancer démarre démarrer arrête arrêter exécute exécuter installe réserve réserver
        ejecuta ejecutar inicia iniciar detén detener instala instalar reserva reservar executa executar
        esegui eseguire avvia avviare fermare installa installare prenota prenotare
        uitvoeren installeer installeren boeken
        """,
    ),
)
"""What is asked for or done, and its verbs: those of a row count as one, but for the second of reading."""

_SIGNS = (
    (READ, "查询 查詢 查看 查找 显示 顯示 列出 搜索 搜尋 获取 獲取 读取 讀取"),
    (READ, "表示 検索 一覧 見せ 教えて 読んで 調べ 探し 보여 조회 검색 목록 찾아"),
    ("create", "创建 建立 新建 添加 新增 作成 追加 만들 생성 추가"),
    ("change", "修改 更新 编辑 編集 变更 変更 移动 移動 重命名 수정 변경 이동"),
    ("remove", "删除 刪除 移除 取消 清空 削除 消して 삭제 제거"),
    ("send", "发送 發送 发布 回复 送信 送って 返信 公開 보내 전송"),
    ("run", "运行 执行 启动 安装 预订 実行 起動 予約 실행 시작 예약"),
)
"""The same of languages that put no spaces between words, or write endings at them."""
_ENDS_WITH_VERB = re.compile("[\u3040-\u30ff\uac00-\ud7a3]")

_INTENT_OF: Mapping[str, str] = {verb: intent for intent, verbs in _ROWS for verb in verbs.split()}
_ALIKE: Mapping[str, str] = {
    verb: intent for number, (intent, verbs) in enumerate(_ROWS) if number != 1 for verb in verbs.split()
}

_QUESTIONS_TEXT = "are any did does had has have is many much was were what when where which who whose why will"
_QUESTIONS = frozenset(_QUESTIONS_TEXT.split())
"""What a question begins with: it asks to read."""
_QUESTIONS_ELSEWHERE_TEXT = """
    welche welcher welches welchen wer wo wann gibt quel quelle quels quelles qui quand où combien qué cuál cuáles quién
    dónde cuándo cuánto cuánta cuántos cuántas hay qual quais quem onde quando quanto quantos quantas quale quali chi
    dove quanti quante cosa welke wat waar wanneer hoeveel ist sind est sont está
    están
"""
_QUESTIONS_ELSEWHERE = frozenset(_QUESTIONS_ELSEWHERE_TEXT.split())

_FILLERS_TEXT = """
    a all an can could do each every for from help her his how i in it its let like me my need of on one our please
    should some that the their them these this those to try us want we with would you your
"""
FILLERS = frozenset(_FILLERS_TEXT.split())
"""Words that say nothing of what is wanted, nor of what it is done to."""

_BEFORE_VERBS_TEXT = """
    kannst könntest können könnten würdest du sie ich mir mich uns bitte mal möchte alle alles der die das den ein eine
    einen einmal peux pouvez pourrais pourriez tu vous je moi nous le la les l un une des s il te plaît veux voudrais
    comment puedes podrías por favor el lo los las una quiero quisiera cómo todos todas pode poderia o os as um uma como
    puoi potresti per gli i mi kun kunt kan u het een de alsjeblieft graag wil tous toutes tutti tutte
    wie hoe
"""
_BEFORE_VERBS = FILLERS | frozenset(_BEFORE_VERBS_TEXT.split())
"""What the verb of a query may come after, in any of the languages; unlike the others, some are words of names."""

_JOINING = frozenset({"and", "or", "then", "to"})
_JOINING_IN_QUERIES = _JOINING | {"und", "oder", "dann", "et", "ou", "puis", "y", "e", "luego", "poi", "en", "daarna"}
KEYWORDS = 5
"""Up to how many words a query is taken for keywords, in which the verb can come anywhere."""

_REFUSED = re.compile(r"\b(?:do(?:es)? not|don['’]?t|not|never|without)\s[^,;.!?]*", re.IGNORECASE)
"""What a query says that it does not want."""
_BIG, _SMALL = "A-ZÀ-ÖØ-ÞŒ", "a-zß-öø-ÿœ"
_WORD = re.compile(f"[{_BIG}]+(?![{_SMALL}])|[{_BIG}]?[{_SMALL}]+|[0-9]+|[^\\W_0-9{_BIG}{_SMALL}]+")
_PARTS = re.compile(r"[,;.!?]\s")
_FIRST = re.compile(r"[A-Za-z]+")


def words_of(text: str) -> tuple[str, ...]:
    """Return the words of a name or query in small letters: `createIssue` is `create` and `issue`."""
    return tuple(word.casefold() for word in _WORD.findall(text))


def asked_by(query: str) -> frozenset[str | None]:
    """Return what a query asks for, which is not what it refuses; `None` is among it if a part doesn't say."""
    parts = [words for part in _PARTS.split(_REFUSED.sub("", query)) if (words := words_of(part))]
    return frozenset[str | None]().union(*map(_asked, parts))


def _asked(words: Sequence[str]) -> frozenset[str | None]:
    telling = [word for word in words if word not in _BEFORE_VERBS]
    first = _in_signs("".join(words))
    if first is None and telling:
        first = READ if telling[0] in _QUESTIONS or telling[0] in _QUESTIONS_ELSEWHERE else intent_of(telling[0])
    if first is None and len(telling) <= KEYWORDS:
        first = next((_INTENT_OF[word] for word in telling if word in _INTENT_OF), None)
    joined = {
        _INTENT_OF[word] for before, word in pairwise(words) if before in _JOINING_IN_QUERIES and word in _INTENT_OF
    }
    return frozenset({first, *joined} if first or not joined else joined)


def _in_signs(text: str) -> str | None:
    """Return what a text in Chinese, Japanese or Korean asks for; in the latter two the verb comes last."""
    if text.isascii():
        return None
    found = [(text.rfind(verb), intent) for intent, verbs in _SIGNS for verb in verbs.split() if verb in text]
    if not found:
        return None
    return (max if _ENDS_WITH_VERB.search(text) else min)(found)[1]


def done_by(words: Sequence[str], definition: Mapping[str, Any]) -> str | None:
    """Return what a tool does, by the words of its name, its annotations and description; `None` if they don't say.

    One that is not annotated as only reading does not read, whatever its name says.
    """
    hints = table(definition.get("annotations")) or {}
    if hints.get("readOnlyHint") is True:
        return READ
    intent = _named(words) or _described(str(definition.get("description", "")))
    writes = hints.get("readOnlyHint") is False or hints.get("destructiveHint") is True
    return "change" if writes and intent in (READ, None) else intent


def _named(words: Sequence[str]) -> str | None:
    """Return what a name says, whose verb is its first word, or its last, or the first that there is."""
    found = [_INTENT_OF[word] for word in words if word in _INTENT_OF]
    if not found or words[0] in _INTENT_OF:
        joined = _JOINING.isdisjoint(words)
        return next((one for one in found if joined or one != READ), found[0]) if found else None
    return _INTENT_OF.get(words[-1], found[0])


def _described(text: str) -> str | None:
    first = _FIRST.match(text)
    return intent_of(first[0].casefold()) if first else None


def intent_of(word: str) -> str | None:
    """Return what a verb in any of its forms says: `lists`, `listing` and `listed` are `list`."""
    return next((_INTENT_OF[form] for form in _forms(word) if form in _INTENT_OF), None)


def meaning_of(word: str) -> str:
    """Return the same for all verbs of one meaning, in any of their forms, and other words as they are."""
    return next((f"={_ALIKE[form]}" for form in _forms(word) if form in _ALIKE), word)


def _forms(word: str) -> Iterator[str]:
    yield word
    for ending in ("s", "es", "d", "ed", "ing"):
        if word.endswith(ending):
            stem = word[: -len(ending)]
            yield stem
            yield f"{stem}e"
            if stem[-2:-1] == stem[-1:]:
                yield stem[:-1]
