package option

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"remshell/job"
)

// Info returns the output of --info: the value of each option and where it was set (rule CLI-12), and the
// environment variables that are read.
func (t *Table) Info(line Line, environ []string, version string) string {
	var b strings.Builder
	b.WriteString(version)
	if path, _ := configPath(environ); path != "" {
		fmt.Fprintf(&b, "configuration: %s\n", path)
	}
	b.WriteByte('\n')
	columns := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, o := range t.options {
		for _, row := range line.info(o, environ) {
			fmt.Fprintf(columns, "%s\t%s\t%s\n", o.Dashed, row[0], row[1])
		}
	}
	columns.Flush()
	b.WriteString("\nenvironment variables that mpiexec reads:\n")
	for _, o := range t.options {
		if names := o.variables(); len(names) > 0 {
			fmt.Fprintf(columns, "%s\t%s\n", o.Dashed, strings.Join(names, " "))
		}
	}
	columns.Flush()
	return b.String()
}

// info returns the values of an option and where each was set. If the option was not given, info returns the value of
// a variable that another package reads for the option, or else the default.
func (l Line) info(o *Option, environ []string) (rows [][2]string) {
	if o.Name == "info" {
		return nil
	}
	for _, g := range l.given {
		if g.Name == o.Name {
			rows = append(rows, [2]string{hideSecret(g), g.originText(1)})
		}
	}
	for _, s := range l.Apps {
		for _, g := range s.given {
			row := [2]string{hideSecret(g), g.originText(len(l.Apps))}
			if g.Name == o.Name && !slices.Contains(rows, row) {
				rows = append(rows, row)
			}
		}
	}
	for _, name := range o.readVariables {
		if value, defined := job.LookupEnv(environ, name); defined && len(rows) == 0 {
			rows = append(rows, [2]string{ShellQuote(value), name})
		}
	}
	if len(rows) == 0 && o.Default() != "" {
		rows = append(rows, [2]string{o.Default(), "built in"})
	}
	return rows
}

// originText returns a text that says where an option was given, such as a file and line. If the command line has several
// app contexts, the text names the app context.
func (g GivenOption) originText(appCount int) string {
	switch {
	case g.source != "":
		return g.source
	case appCount > 1:
		return fmt.Sprintf("command line, app context %d", g.AppNumber)
	}
	return "command line"
}

// secretNameParts lists parts of variable names. Values of variables with such names must not be printed (rule ENV-9).
var secretNameParts = []string{"TOKEN", "SECRET", "PASSW", "KEY", "CREDENTIAL"}

// hideSecret returns the option's value for printing, with secrets replaced by "...".
func hideSecret(g GivenOption) string {
	name, _, assignment := strings.Cut(g.Value, "=")
	if assignment && slices.ContainsFunc(secretNameParts, func(part string) bool { return strings.Contains(strings.ToUpper(name), part) }) {
		return name + "=..."
	}
	return ShellQuote(g.Value)
}
