package api

import (
	"strings"
	"time"
	_ "time/tzdata" // images have no time zones

	"github.com/robfig/cron/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Window is a recurring time in which pods may move.
type Window struct {
	// Schedule says when the window opens, as five fields of cron.
	Schedule string `json:"schedule"`
	// Duration is how long it stays open.
	Duration metav1.Duration `json:"duration"`
	// TimeZone is that of Schedule, such as Europe/Berlin; UTC if empty.
	TimeZone string `json:"timeZone,omitempty"`
}

// The limits of Window.Duration.
const (
	shortestWindow = time.Minute
	longestWindow  = 7 * 24 * time.Hour
)

// leapYear has all days of the calendar.
var leapYear = time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)

// Open reports whether pods may move at the time. The configuration must be valid.
func (c *Configuration) Open(now time.Time) bool {
	for i := range c.Windows {
		if c.Windows[i].open(now) {
			return true
		}
	}
	return len(c.Windows) == 0
}

// NextOpening returns when the next window opens; the zero time without windows. The configuration must be valid.
func (c *Configuration) NextOpening(now time.Time) (next time.Time) {
	for i := range c.Windows {
		if at := c.Windows[i].opensAfter(now); next.IsZero() || !at.IsZero() && at.Before(next) {
			next = at
		}
	}
	return next
}

func (w *Window) open(now time.Time) bool {
	opened := w.opensAfter(now.Add(-w.Duration.Duration))
	return !opened.IsZero() && !opened.After(now)
}

// opensAfter returns when the window next opens after the time; the zero time if never.
func (w *Window) opensAfter(at time.Time) time.Time {
	zone, err := time.LoadLocation(w.TimeZone)
	if err != nil {
		return time.Time{}
	}
	schedule, err := cron.ParseStandard(w.Schedule)
	if err != nil {
		return time.Time{}
	}
	return schedule.Next(at.In(zone))
}

func (w *Window) validate(path *field.Path) (errs field.ErrorList) {
	invalid := func(name, value, message string) {
		errs = append(errs, field.Invalid(path.Child(name), value, message))
	}
	schedule, err := cron.ParseStandard(w.Schedule)
	switch {
	case strings.Contains(w.Schedule, "TZ="):
		invalid("schedule", w.Schedule, "write the time zone in timeZone")
	case strings.HasPrefix(w.Schedule, "@"):
		invalid("schedule", w.Schedule, "write the five fields of cron, such as 0 22 * * 1-5")
	case err != nil:
		invalid("schedule", w.Schedule, "write the five fields of cron, such as 0 22 * * 1-5: "+err.Error())
	case schedule.Next(leapYear).IsZero():
		invalid("schedule", w.Schedule, "there is no such day, so the window never opens")
	}
	if d := w.Duration.Duration; d < shortestWindow || d > longestWindow {
		invalid("duration", d.String(), "must be in ["+shortestWindow.String()+", "+longestWindow.String()+"]")
	}
	// Local would be another zone on each machine.
	if _, err := time.LoadLocation(w.TimeZone); err != nil || w.TimeZone == time.Local.String() {
		invalid("timeZone", w.TimeZone, "write a name of the IANA time zone database, such as Europe/Berlin")
	}
	return errs
}
