# Turns a document of docs/ into the language of man(7): headings, paragraphs, lists, tables, blocks of code. The first heading
# is left out. Run in a locale in which a character is a byte.
function escape(text) {
    gsub(/\\/, "\\e", text)
    gsub(/-/, "\\-", text)
    return text
}
function inline(text,    n, part, out, i) {
    while (match(text, /\[[^]]*\]\([^)]*\)/)) { # a link: its words
        part = substr(text, RSTART + 1, RLENGTH - 1)
        sub(/\].*/, "", part)
        text = substr(text, 1, RSTART - 1) part substr(text, RSTART + RLENGTH)
    }
    gsub(/\*\*/, "", text)
    gsub(/\\\|/, "|", text)
    n = split(text, piece, "`")
    for (i = 1; i <= n; i++)
        out = out (i % 2 ? escape(piece[i]) : "\\fB" escape(piece[i]) "\\fR")
    if (out ~ /^[.']/)
        out = "\\&" out
    return out
}
/^```/ {
    code = !code
    print code ? ".PP\n.RS 4\n.nf" : ".fi\n.RE"
    text = 0
    next
}
code { line = escape($0); print (line ~ /^[.']/ ? "\\&" : "") line; next }
/^# / { next }
/^#/ { sub(/^#+ /, ""); print ".SH " toupper(inline($0)); text = 0; head = 0; next }
/^\|---/ { next }
/^\|/ {
    if (!head) { head = 1; next }
    gsub(/\\\|/, "\001")
    n = split($0, cell, / *\| */)
    for (i = 1; i <= n; i++) gsub(/\001/, "|", cell[i])
    print ".TP\n" inline(cell[2]) (n > 4 && cell[3] != "" ? " (" inline(cell[3]) ")" : "")
    print inline(cell[n - 1]) "."
    text = 0
    next
}
/^$/ { text = 0; head = 0; next }
/^- / { print ".IP \\(bu 2"; sub(/^- /, ""); text = 1 }
{
    if (!text) print ".PP"
    text = 1
    sub(/^ +/, "")
    print inline($0)
}
