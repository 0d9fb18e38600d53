package main

import (
	"go/ast"
	"go/token"
	"io/fs"
	"reflect"
	"regexp"
	"strconv"
	"strings"
)

// minWords is the minimum number of words of a string in the source that counts as a message. A shorter string is a
// part of a message and has no meaning alone.
const minWords = 3

var (
	twoLetters = regexp.MustCompile(`[A-Za-z][a-z']`)

	// oneName matches a string that is a single code or the name of a step, and not a message.
	oneName = regexp.MustCompile(`^[a-z]+(-[a-z]+)*$`)

	innerCapital = regexp.MustCompile(`([a-z])([A-Z])`)

	// verb matches a formatting verb, such as %s.
	verb = regexp.MustCompile(`%[-+# 0]*(\*|\d+)?(\.\d+)?[a-zA-Z%]`)

	// continuation matches the beginning of a text that always follows another text on the same line.
	continuation = regexp.MustCompile(`^[,;:]|^\. `)

	// protocol matches strings that programs read and people do not.
	protocol = regexp.MustCompile(`^(cmd=|\.[A-Za-z]{1,2} |, "|\s*[\[{<] *"|#!|\$|SSH-)|;rc=|\bstdio=|[<>]/?(svg|text|rect)|\b(awk|exec|trap) `)

	// silent matches names of functions whose arguments are not messages to a user.
	silent = regexp.MustCompile(`^(panic|\w+\.Register|regexp\.\w+|strings\.\w+|exec\.Command(Context)?|unix\.\w+|os\.\w+|\w+\.AppendReply|\w+\.Format|slices\.\w+)$`)
)

// A frame is a string that mpiexec always prints before certain messages.
type frame struct {
	file, call *regexp.Regexp // messages in these files, or if call is not nil, in arguments of these functions there
	prefix     string
	hasStep    bool // the name of a step comes between prefix and message
}

var frames = []frame{
	{regexp.MustCompile(`^(wire|feature/.*|launch/.*|ledger)/\w+\.go$`), regexp.MustCompile(`^(c\.\w+|node\.InvalidValue)$`), "the host sent a message with an impossible value: ", false},
	{regexp.MustCompile(`^doctor/`), regexp.MustCompile(`^newFinding$`), "{host}: ", false},
	{regexp.MustCompile(`^(sshx|transport)/`), regexp.MustCompile(`^(newDialError|d\.newError|failed|late)$`), "{host}: ", true},
	{regexp.MustCompile(`^plan/(select|units)\.go$`), nil, "{host}: ", false},
}

// prefixOf returns the text that mpiexec prints before messages that are arguments of this call. If call is nil,
// prefixOf returns the text before other messages of this file.
func (s source) prefixOf(call *ast.CallExpr) string {
	for _, f := range frames {
		if f.file.MatchString(s.name) && (f.call == nil || call != nil && f.call.MatchString(s.between(call.Fun.Pos(), call.Fun.End()))) {
			prefix := f.prefix
			if f.hasStep && call != nil {
				for _, arg := range call.Args {
					if step, isLit := arg.(*ast.BasicLit); isLit && step.Kind == token.STRING && countWords(unquote(step)) < minWords {
						return prefix + unquote(step) + ": "
					}
				}
			}
			return prefix
		}
	}
	return ""
}

// collectMessages returns the texts for users: messages, hints, and entries of the help.
func collectMessages(repo fs.FS) (found []sample, err error) {
	err = forEachSource(repo, func(s source) {
		if !strings.HasPrefix(s.name, "tools/") {
			ast.Inspect(s.file, func(n ast.Node) bool { return s.visit(n, &found) })
		}
	})
	if err != nil {
		return nil, err
	}
	const page = "cli/option/texts/options.txt"
	text, err := fs.ReadFile(repo, page)
	if err != nil {
		return nil, err
	}
	return withSummaries(append(found, helpEntries(page, string(text))...)), nil
}

// withSummaries puts the summary of an option above the option's longer help text, as -help -OPTION does.
func withSummaries(found []sample) []sample {
	summaries := map[string]string{}
	for _, s := range found {
		if name, _, _ := strings.Cut(s.text, " "); strings.HasPrefix(name, "-") && strings.Contains(s.text, "  ") && !strings.Contains(s.text, "\n") {
			summaries[name] = s.text
		}
	}
	for i, s := range found {
		name, rest, _ := strings.Cut(s.text, "\n")
		if summary := summaries[name]; summary != "" && strings.HasPrefix(rest, "  ") {
			found[i].text = summary + "\n" + rest
		}
	}
	return found
}

// visit adds the messages in a node of the syntax tree to found. It returns false if the caller need not visit the
// nodes below.
func (s source) visit(n ast.Node, found *[]sample) bool {
	add := func(text string) {
		call, _ := n.(*ast.CallExpr)
		text = strings.Trim(text, "\n")
		if continuation.MatchString(text) {
			text = "..." + text
		}
		*found = append(*found, s.sampleAt(n.Pos(), s.prefixOf(call)+text))
	}
	switch n := n.(type) {
	case *ast.ImportSpec, *ast.CaseClause:
		if n, ok := n.(*ast.CaseClause); ok {
			for _, stmt := range n.Body {
				ast.Inspect(stmt, func(n ast.Node) bool { return s.visit(n, found) })
			}
		}
		return false
	case *ast.KeyValueExpr:
		if key, named := n.Key.(*ast.Ident); named {
			return !isPattern(key.Name)
		}
	case *ast.ValueSpec:
		return !isPattern(n.Names[0].Name) && !strings.HasSuffix(n.Names[0].Name, "Label") // labels are input of a MAC or a hash
	case *ast.Field:
		if n.Tag != nil {
			tag := reflect.StructTag(unquote(n.Tag))
			if help := tag.Get("help"); help != "" {
				add(strings.TrimSpace(tag.Get("name")+" "+tag.Get("arg")) + "  " + help)
			}
		}
		return false
	case *ast.BinaryExpr:
		if n.Op != token.ADD {
			return n.Op != token.EQL && n.Op != token.NEQ
		}
		if text, words := s.render(n); words >= minWords && !protocol.MatchString(text) {
			add(text)
			return false
		}
	case *ast.BasicLit:
		text, words := s.render(n)
		switch entries := helpEntries("", text); {
		case len(entries) > 0:
			for _, entry := range entries {
				add(entry.text)
			}
		case words >= minWords && !protocol.MatchString(text):
			add(text)
		}
	case *ast.CallExpr:
		if silent.MatchString(s.between(n.Fun.Pos(), n.Fun.End())) {
			return false
		}
		return s.addJoined(n, n.Args, add)
	case *ast.CompositeLit:
		if text := s.renderProblem(n); text != "" {
			add(text)
			return false
		}
		var values []ast.Expr
		for _, field := range n.Elts {
			pair, isPair := field.(*ast.KeyValueExpr)
			key, named := (*ast.Ident)(nil), false
			if isPair {
				key, named = pair.Key.(*ast.Ident)
			}
			if !named || !isMessageField(key.Name) && !isPattern(key.Name) && hasTexts(pair.Value) {
				return true
			}
			if isMessageField(key.Name) {
				values = append(values, pair.Value)
			}
		}
		return s.addJoined(n, values, add)
	}
	return true
}

// isMessageField reports whether a field with this name can be part of the message of an error, or of a finding of
// --doctor. Other fields may contain functions, which can contain further messages.
func isMessageField(name string) bool {
	switch name {
	case "Text", "Remedy", "Hint", "Code", "Problem", "Detail", "Source", "Token", "Err", "Reason", "Host", "Step", "Why", "step", "why", "hint":
		return true
	}
	return false
}

// isPattern reports whether a variable or field with this name contains patterns, which are compared with other texts
// and never printed.
func isPattern(name string) bool {
	name = strings.ToLower(name)
	return strings.HasSuffix(name, "patterns") || strings.HasSuffix(name, "pattern")
}

// renderProblem returns the string that the method Error of a psi.Error returns. It returns "" if lit is not a
// psi.Error.
func (s source) renderProblem(lit *ast.CompositeLit) string {
	parts := map[string]string{}
	for _, field := range lit.Elts {
		pair, ok := field.(*ast.KeyValueExpr)
		if !ok {
			return ""
		}
		text, _ := s.render(pair.Value)
		if list, ok := pair.Value.(*ast.CompositeLit); ok {
			var items []string
			for _, item := range list.Elts {
				item, _ := s.render(item)
				items = append(items, item)
			}
			text = strings.Join(items, ", ")
		}
		parts[s.between(pair.Key.Pos(), pair.Key.End())] = text
	}
	if parts["Problem"] == "" || parts["Source"] == "" {
		return ""
	}
	text := parts["Source"] + `: "` + parts["Token"] + `" ` + parts["Problem"]
	if parts["Allowed"] != "" {
		text += "; allowed: " + parts["Allowed"]
	}
	return text
}

// addJoined adds one message with a line for each element of values that contains words. If no element contains
// words, or an element cannot be rendered, it adds nothing and returns true. The caller then visits the elements
// one by one.
func (s source) addJoined(n ast.Node, values []ast.Expr, add func(string)) (descend bool) {
	var lines, names []string // names are codes and steps
	total, longest := 0, 0
	if call, ok := n.(*ast.CallExpr); ok {
		if text, words, formats := s.renderFormat(call); formats {
			if words >= minWords && !protocol.MatchString(text) {
				add(text)
				return false
			}
			return true
		}
	}
	for _, value := range values {
		text, words := s.render(value)
		if words == 0 {
			if hasTexts(value) {
				return true
			}
			if _, isField := value.(*ast.SelectorExpr); isField && len(names) > 0 && len(lines) == 0 { // the message behind its code
				lines = append(lines, text)
			}
			continue
		}
		total, longest = total+words, max(longest, words)
		if protocol.MatchString(text) {
			return true
		}
		if words == 1 && oneName.MatchString(text) {
			names = append(names, text)
			continue
		}
		lines = append(lines, text)
	}
	if len(lines) == 0 {
		lines = names
	}
	if total < minWords || longest < 2 { // single words are names, such as options of a command
		return true
	}
	add(strings.Join(lines, "\n"))
	return false
}

// hasTexts reports whether an expression contains a string constant of at least minWords words.
func hasTexts(e ast.Expr) (found bool) {
	ast.Inspect(e, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			found = found || countWords(unquote(lit)) >= minWords
		}
		return !found
	})
	return found
}

// render returns the text of an expression. A part that is only known at run time becomes a placeholder, such as {host
// name}. words is the number of words in the other parts.
func (s source) render(e ast.Expr) (text string, words int) {
	switch e := e.(type) {
	case *ast.BasicLit:
		if e.Kind == token.STRING {
			text := unquote(e)
			return text, countWords(text)
		}
	case *ast.ParenExpr:
		return s.render(e.X)
	case *ast.BinaryExpr:
		if number, isLit := e.Y.(*ast.BasicLit); isLit && number.Kind != token.STRING {
			return s.placeholder(e.X), 0
		}
		if e.Op == token.ADD {
			left, n := s.render(e.X)
			right, m := s.render(e.Y)
			return left + right, n + m
		}
	case *ast.CallExpr:
		if text, words, formats := s.renderFormat(e); formats && words > 0 {
			return text, words
		}
	case *ast.UnaryExpr:
		return s.render(e.X)
	case *ast.CompositeLit, *ast.FuncLit:
		return "", 0
	}
	return s.placeholder(e), 0
}

// placeholder returns a word in braces for a value that is only known at run time. The word is the name of the
// variable, field or function in the source.
func (s source) placeholder(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		return "{" + e.Value + "}"
	case *ast.Ident:
		return "{" + spaced(e.Name) + "}"
	case *ast.SelectorExpr:
		return "{" + spaced(e.Sel.Name) + "}"
	case *ast.IndexExpr:
		return s.placeholder(e.X)
	case *ast.SliceExpr:
		return s.placeholder(e.X)
	case *ast.StarExpr:
		return s.placeholder(e.X)
	case *ast.BinaryExpr:
		return s.placeholder(e.X)
	case *ast.ParenExpr:
		return s.placeholder(e.X)
	case *ast.CallExpr:
		called, isMethod := e.Fun.(*ast.SelectorExpr)
		switch {
		case isMethod && called.Sel.Name == "Count" && len(e.Args) == 2:
			if noun, _ := s.render(e.Args[1]); !strings.HasPrefix(noun, "{") {
				return "{n} " + plural(noun)
			}
		case isMethod && called.Sel.Name == "Command" && len(e.Args) > 0: // the command that the user types
			words := []string{"mpijob"}
			for _, arg := range e.Args {
				word, _ := s.render(arg)
				words = append(words, word)
			}
			return strings.Join(words, " ")
		case len(e.Args) > 0 && !isBool(e.Args[0]): // a function that formats its first argument
			return s.placeholder(e.Args[0])
		case isMethod && called.Sel.Name == "Error":
			return "{err}"
		}
		return s.placeholder(e.Fun)
	}
	return "{value}"
}

// plural returns the plural of a noun, as text.Count forms it.
func plural(noun string) string {
	if strings.HasSuffix(noun, "s") {
		return noun + "es"
	}
	return noun + "s"
}

// isBool reports whether an expression is the identifier true or false.
func isBool(e ast.Expr) bool {
	name, ok := e.(*ast.Ident)
	return ok && (name.Name == "true" || name.Name == "false")
}

// spaced returns an identifier as separate words: hostName becomes "host name".
func spaced(name string) string {
	return strings.ToLower(innerCapital.ReplaceAllString(name, "$1 $2"))
}

// renderFormat returns the text of a call that formats values, such as fmt.Errorf. formats is false if the call has
// no format string.
func (s source) renderFormat(call *ast.CallExpr) (text string, words int, formats bool) {
	for i, arg := range call.Args {
		lit, isLit := arg.(*ast.BasicLit)
		if !isLit || lit.Kind != token.STRING || !verb.MatchString(unquote(lit)) {
			continue
		}
		format, values := unquote(lit), call.Args[i+1:]
		words = countWords(verb.ReplaceAllString(format, ""))
		text = verb.ReplaceAllStringFunc(format, func(v string) string {
			switch {
			case v == "%%":
				return "%"
			case len(values) == 0:
				return v
			}
			value, n := s.render(values[0])
			values, words = values[1:], words+n
			return value
		})
		for _, rest := range values { // a remedy behind the text
			if more, n := s.render(rest); n >= minWords {
				text, words = text+"\n"+more, words+n
			}
		}
		return text, words, true
	}
	return "", 0, false
}

// countWords returns the number of words in text. A word is a run of characters between blanks that contains two
// adjacent letters.
func countWords(text string) (n int) {
	for _, field := range strings.Fields(text) {
		if twoLetters.MatchString(field) {
			n++
		}
	}
	return n
}

// unquote returns the value of a string literal.
func unquote(lit *ast.BasicLit) string {
	text, err := strconv.Unquote(lit.Value)
	if err != nil {
		return ""
	}
	return text
}

// helpEntries returns the entries of a help page. An entry is a line with the name of an option, followed by
// indented lines. If the text has no entries, helpEntries returns nil.
func helpEntries(name, text string) (found []sample) {
	var entry []string
	end := func() {
		if len(entry) > 1 {
			found = append(found, sample{name, strings.Join(entry, "\n")})
		}
		entry = nil
	}
	for _, line := range strings.Split(text, "\n") {
		switch {
		case strings.HasPrefix(line, "#"), line == "":
			end()
		case strings.HasPrefix(line, "-") && !strings.Contains(line, " "):
			end()
			entry = []string{line}
		case strings.HasPrefix(line, "  ") && len(entry) > 0:
			entry = append(entry, line)
		default:
			return nil
		}
	}
	end()
	return found
}
