//go:build linux

package rank

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"remshell/job"
)

// bareVariables are the only variables of the node's environment that a rank gets with -genvnone (rule
// ENV-3).
var bareVariables = []string{"HOME", "USER", "LOGNAME", "SHELL", "PATH", "TMPDIR", "LANG"}

// An envBuilder builds an environment. It keeps names in the order in which they were first set.
type envBuilder struct {
	names     []string
	values    map[string]string
	suggested []string // assignments that mpiexec has made by default, not the user
}

func (v *envBuilder) setVariable(assignment string) {
	name, value, ok := strings.Cut(assignment, "=")
	if !ok || name == "" {
		return
	}
	if _, known := v.values[name]; !known {
		v.names = append(v.names, name)
	}
	v.values[name] = value
}

// setDefault sets a variable if it is not set yet.
func (v *envBuilder) setDefault(name, value string) {
	if _, known := v.values[name]; !known {
		v.names = append(v.names, name)
		v.values[name] = value
		v.suggested = append(v.suggested, name+"="+value)
	}
}

// maxCommandLineVar is the largest command line that ranks get in a variable, in bytes. The kernel allows 128 KiB in
// one variable, but much more in arguments.
const maxCommandLineVar = 4 << 10

// setShortDefault is setDefault for values that ranks do not need. It leaves out values longer than
// maxCommandLineVar.
func (v *envBuilder) setShortDefault(name, value string) {
	if len(value) <= maxCommandLineVar {
		v.setDefault(name, value)
	}
}

func (v *envBuilder) unsetMatching(patterns []string) {
	v.names = slices.DeleteFunc(v.names, func(name string) bool {
		if !job.MatchesPattern(patterns, name) {
			return false
		}
		delete(v.values, name)
		return true
	})
}

// identityVars is the number of variables that a rank has in addition to its app context's. A slice reserves this
// capacity.
const identityVars = 24

func (v *envBuilder) assignments() []string {
	list := make([]string, len(v.names), len(v.names)+identityVars)
	for i, name := range v.names {
		list[i] = name + "=" + v.values[name]
	}
	return list
}

// AppEnv composes the environment that all ranks of an app context share. nodeEnv is the node's environment, base has
// mpiexec's settings, and app has the app context's. Later values override earlier ones (cli.md 8). PWD is set to
// dir.
func AppEnv(nodeEnv []string, base, app job.Env, dir string) []string {
	v := &envBuilder{values: make(map[string]string, len(nodeEnv)+len(base.Set))}
	outer, keepOnly := job.OuterFilter(nodeEnv), base.Minimal || app.Minimal
	for _, assignment := range nodeEnv {
		name, _, _ := strings.Cut(assignment, "=")
		if outer(assignment) || keepOnly && !slices.Contains(bareVariables, name) {
			continue
		}
		v.setVariable(assignment)
	}
	for _, layer := range []job.Env{base, app} {
		for _, assignment := range layer.DirVars {
			v.setVariable(assignment)
		}
		for _, assignment := range layer.Set {
			v.setVariable(assignment)
		}
		v.unsetMatching(layer.Unset)
	}
	v.setVariable("PWD=" + dir)
	return v.assignments()
}

// WithDefaultPath returns environ. If environ has no PATH, the result has the default PATH.
func WithDefaultPath(environ []string) []string {
	if _, defined := job.LookupEnv(environ, "PATH"); defined {
		return environ
	}
	return append(slices.Clip(environ), "PATH="+job.DefaultPath)
}

// WithExistingDirs removes those directories from an environment's settings that do not exist on this node
// (rule ENV-5). It calls log for each.
func WithExistingDirs(env job.Env, log func(text string)) job.Env {
	env.DirVars = slices.DeleteFunc(slices.Clone(env.DirVars), func(assignment string) bool {
		name, dir, _ := strings.Cut(assignment, "=")
		info, err := os.Stat(dir)
		gone := err != nil || !info.IsDir()
		if gone {
			log(fmt.Sprintf("%s is not passed on: there is no directory %s here", name, dir))
		}
		return gone
	})
	return env
}
