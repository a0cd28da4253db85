package configlint

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	kubeschedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/validation"

	"github.com/plimsoll-scheduler/plimsoll/internal/boundedfile"
	"github.com/plimsoll-scheduler/plimsoll/pkg/configlint/finding"
)

// CheckFile checks a regular file. It skips other files, such as pipes, because only the scheduler can read them.
func CheckFile(file string, o Options) ([]finding.Finding, error) {
	if info, err := os.Stat(file); err != nil || !info.Mode().IsRegular() {
		return nil, nil
	}
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	_, findings, err := Check(content, o)
	return findings, errors.Join(err, fatal(findings))
}

// ReadFile returns the valid configuration of a file, completed by defaults and the environment.
func ReadFile(ctx context.Context, file string, o Options) (*kubeschedulerconfig.KubeSchedulerConfiguration, error) {
	content, err := boundedfile.ReadConfiguration(ctx, file)
	if err != nil {
		return nil, err
	}
	cfg, err := read(content, o)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return cfg, nil
}

func read(content []byte, o Options) (*kubeschedulerconfig.KubeSchedulerConfiguration, error) {
	cfg, findings, err := Check(content, o)
	if err := errors.Join(err, fatal(findings)); err != nil {
		return nil, err
	}
	return cfg, validation.ValidateKubeSchedulerConfiguration(cfg)
}

// fatal returns an error if the scheduler does not start with the findings.
func fatal(findings []finding.Finding) error {
	var errs []error
	for _, f := range findings {
		if f.Fatal {
			errs = append(errs, errors.New(f.String()))
		}
	}
	return utilerrors.NewAggregate(errs)
}

// Validate checks a file as the scheduler does at start, without the files that the configuration names. It prints findings.
func Validate(out, errOut io.Writer, file string, o Options) error {
	err := validate(errOut, file, o)
	if err != nil {
		_, _ = fmt.Fprintf(errOut, "Error: %v\n", err)
		return err
	}
	_, err = fmt.Fprintf(out, "configuration %s is valid\n", file)
	return err
}

func validate(errOut io.Writer, file string, o Options) error {
	if file == "" {
		return errors.New("--validate-only: name the file to check with --config")
	}
	content, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("--config: %w", err)
	}
	o.FilesAreElsewhere = true
	cfg, findings, err := Check(content, o)
	for _, f := range findings {
		if !f.Fatal {
			_, _ = fmt.Fprintf(errOut, "Warning: %v\n", &f)
		}
	}
	if err == nil {
		err = fatal(findings)
	}
	if err == nil {
		err = validation.ValidateKubeSchedulerConfiguration(cfg)
	}
	if err == nil {
		return nil
	}
	problems := []error{err}
	if aggregate := utilerrors.Aggregate(nil); errors.As(err, &aggregate) {
		problems = aggregate.Errors()
	}
	for _, problem := range problems {
		_, _ = fmt.Fprintf(errOut, "Error: %v\n", problem)
	}
	return fmt.Errorf("configuration %s is invalid", file)
}
