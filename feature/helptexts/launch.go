package helptexts

import (
	"time"

	"remshell/launch"
	"remshell/launch/supervise"
)

func init() { launch.Register(launch.Feature{Name: "help texts", Attach: attach}) }

// attach counts the help texts of the job. It replies to helpers that ask whether a text was printed before.
func attach(j *launch.Job) {
	var texts aggregator
	report := func(lines []string) {
		for _, line := range lines {
			j.Env.Report(line)
		}
	}
	launch.Handle(j, func(n *launch.Node, m *ShowHelp) []supervise.Event {
		n.Send(&ShowHelpReply{ID: m.ID, AlreadyShown: texts.countText(topic{m.File, m.Topic}, time.Now())})
		return nil
	})
	j.Hooks.Due.Add(func(now time.Time) time.Time {
		report(texts.takeDue(now))
		return texts.reportAt
	})
	j.Hooks.Ended.Add(func() { report(texts.takeRest()) })
}
