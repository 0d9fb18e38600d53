package request

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"remshell/cli/option"
	"remshell/job"
	"remshell/usererr"
)

// isLocalVariable tells which variables of an environment are not to be taken along: they are private,
// or another launcher set them for us (ENV-2): we are its rank, ours are not.
func isLocalVariable(environ []string) func(assignment string) bool {
	outer := job.OuterFilter(environ)
	return func(assignment string) bool {
		name, _, _ := strings.Cut(assignment, "=")
		return job.MatchesPattern(option.PrivateVariables, name) || outer(assignment)
	}
}

// baseEnv is what every rank gets of our environment, and what -genv gives it (cli.md
// section 8: what is taken along, (2) and (3)). What the entry of a host gives comes
// between the two.
func baseEnv(environ []string, j option.JobOptions) (env job.Env, given []string, err error) {
	if j.Export.Given && j.GEnvList.Given {
		return env, nil, &usererr.Error{Text: "--export contradicts -genvlist, -genvall and -genvnone", Remedy: "keep one"}
	}
	list := j.GEnvList
	if j.Export.Given && !j.Export.All {
		list = option.EnvImport{Given: true}
	}
	env, err = importEnv(environ, list, true)
	if err == nil && j.HybridHosts && !list.Given {
		env.Set = slices.DeleteFunc(env.Set, func(a string) bool {
			return strings.HasPrefix(a, "PATH=") || strings.HasPrefix(a, "LD_LIBRARY_PATH=")
		})
	}
	var on job.Env
	if err == nil {
		err = assignVars(&on, environ, "--export", j.Export.Vars)
	}
	if err == nil {
		err = assignVars(&on, environ, "-genv", j.GEnv)
	}
	return env, on.Set, err
}

// loginVariables lists those of the private variables that every login on a node has.
var loginVariables = []string{"HOME", "USER", "LOGNAME", "SHELL", "MAIL", "HOSTNAME", "HOST"}

// HelperEnv is the environment of a helper on this machine. It is a child of ours, but
// its ranks must not see more than those on other hosts, where only a login is
// (ENV-6). TMPDIR comes to it as it does to those (ENV-5).
func HelperEnv(environ []string) []string {
	stays := isLocalVariable(environ)
	return slices.DeleteFunc(slices.Clone(environ), func(assignment string) bool {
		name, _, _ := strings.Cut(assignment, "=")
		return name == "TMPDIR" || stays(assignment) && !slices.Contains(loginVariables, name)
	})
}

// sectionEnv is what a section says on top of that (4).
func sectionEnv(environ []string, s option.AppContext) (job.Env, error) {
	env, err := importEnv(environ, s.EnvList, false)
	env.Set = slices.Concat(env.Set, mcaAssignments("OMPI_MCA_", s.MCA))
	if err == nil {
		err = assignVars(&env, environ, "-env", s.Env)
	}
	if err == nil {
		err = assignVars(&env, environ, "-x", s.X)
	}
	env.Unset = s.UnsetEnv
	return env, err
}

// mcaAssignments are those of Open MPI as the variables by which it reads them (PMIX-14).
func mcaAssignments(prefix string, list []option.MCAParam) (assignments []string) {
	for _, p := range list {
		assignments = append(assignments, prefix+p.Name+"="+p.Value)
	}
	return assignments
}

// importEnv lists the variables to take along. A name given by hand is taken although
// it is private; an empty list takes nothing, of ours nor of the node's (ENV-3).
func importEnv(environ []string, list option.EnvImport, all bool) (job.Env, error) {
	if !list.Given && !all {
		return job.Env{}, nil
	}
	if list.Given && len(list.Names) == 0 {
		return job.Env{Minimal: true}, nil
	}
	var env job.Env
	everything := !list.Given || slices.Contains(list.Names, "*")
	env.Minimal = !everything
	stays := isLocalVariable(environ)
	for _, assignment := range environ {
		name, _, _ := strings.Cut(assignment, "=")
		switch {
		case everything && name == "TMPDIR": // may not be there (ENV-5)
			env.DirVars = append(env.DirVars, assignment)
		case job.MatchesPattern(list.Names, name) && !everything || everything && !stays(assignment):
			env.Set = append(env.Set, assignment)
		}
	}
	return env, nil
}

// assignVars adds the variables that an option lists. A name alone takes our value.
func assignVars(env *job.Env, environ []string, name string, vars []option.EnvVar) error {
	for _, v := range vars {
		if !v.Inherited {
			env.Set = append(env.Set, v.Name+"="+v.Value)
			continue
		}
		found := false
		for _, assignment := range environ {
			if defined, _, _ := strings.Cut(assignment, "="); job.MatchesPattern([]string{v.Name}, defined) {
				env.Set = append(env.Set, assignment)
				found = true
			}
		}
		if !found && name != "-x" { // that is a warning (option.Line)
			return &usererr.Error{Text: fmt.Sprintf("%s %s: no such variable here", name, v.Name),
				Remedy: fmt.Sprintf("give it a value: %s %s=VALUE", name, v.Name)}
		}
	}
	return nil
}

// addShareVariables adds what ranks are told of their CPUs (placement.md 7.6): the TPP if it was
// said on purpose, and that busy waiting must give way where CPUs are shared. What the
// user has set stays, also where the entry of a host does; foreign is an assignment of somebody else's.
func addShareVariables(req *job.Request, app *job.App, given bool, foreign string) {
	tell := func(name, value string) {
		set := func(assignment string) bool {
			return strings.HasPrefix(assignment, name+"=") && assignment != foreign
		}
		if !slices.ContainsFunc(req.BaseEnv.Set, set) && !slices.ContainsFunc(req.GlobalEnv, set) && !slices.ContainsFunc(app.Env.Set, set) {
			app.DefaultEnv = append(app.DefaultEnv, name+"="+value)
		}
	}
	if given {
		tell("OMP_NUM_THREADS", strconv.Itoa(app.CPUsPerRank))
		app.Env.Set = append(app.Env.Set, "PSI_TPP="+strconv.Itoa(app.CPUsPerRank))
	}
	if req.Overbook || req.Oversubscribe {
		tell("PSP_SCHED_YIELD", "1")
	}
}
