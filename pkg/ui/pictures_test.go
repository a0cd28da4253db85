//go:build pictures

package ui

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/top"
	"github.com/plimsoll-scheduler/plimsoll/test/browser"
)

var (
	pictures = flag.String("pictures", "../../docs/pictures", "folder of the pictures that the docs show")
	modes    = flag.String("modes", "", "folder of pictures of all views in all modes; empty for none")
)

// pictured is a cluster to look at: nodes of three pools and zones, a few of them hot, with pods.
type pictured struct{ *fakeCluster }

func newPictured(nodes int) pictured {
	c := newCluster()
	random := rand.New(rand.NewPCG(7, 7))
	pools := []string{"general", "general", "general", "memory", "batch"}
	for i := range nodes {
		pool, zone := pools[i%len(pools)], string("abc"[i%3])
		r := row(fmt.Sprintf("%s-%s-%03d", pool, zone, i))
		r.Labels = map[string]string{"karpenter.sh/nodepool": pool, "topology.kubernetes.io/zone": "eu-west-1" + zone}
		r.Pods, r.Profiles = 12+random.IntN(26), []string{"default-scheduler", "plimsoll"}
		for j, of := range r.Resources() {
			u := min(97, max(4, 46+17*random.NormFloat64()+float64(8*j)))
			pending := max(0, 4*random.NormFloat64()+1)
			of.MeasuredPercent, of.PendingPercent, of.UtilizationPercent = new(u), pending, u+pending
			of.AboveLine = of.UtilizationPercent > 80
			of.RequestedPercent, of.AllocatablePercent = min(98, 62+15*random.NormFloat64()), 94
		}
		r.Memory.Allocatable = resource.MustParse("30Gi")
		c.rows[r.Name] = r
	}
	return pictured{c}
}

func (c pictured) Pods(context.Context, string) (*top.Pods, error) {
	p := &top.Pods{}
	for i, name := range []string{"checkout-7d9f", "search-5b8c", "cart-6c4d", "ledger-0", "mailer-8f2a", "images-9d1e", "metrics-agent-x2", "proxy-q7"} {
		pod := top.Pod{Namespace: "shop", Name: name}
		for _, of := range []*top.PodResource{&pod.CPU, &pod.Memory} {
			of.UsagePercent = 22 / float64(i+1)
			of.Usage = resource.MustParse(fmt.Sprint(1760/(i+1), "m"))
		}
		pod.Memory.Usage = resource.MustParse(fmt.Sprint(4096/(i+1), "Mi"))
		if i == 2 {
			pod.CPU.PendingPercent = 3
		}
		p.Pods = append(p.Pods, pod)
	}
	return p, nil
}

// shoot writes a picture of an element, of at most maxHeight. The element html is drawn whole.
func shoot(tb *browser.Tab, file, selector string) {
	tb.Helper()
	const maxHeight = 860
	must(tb.T, os.MkdirAll(filepath.Dir(file), 0o750))
	tb.Exec(`scrollTo(0, 0)`)
	tb.Settle()
	clip := browser.Eval[cdppage.Viewport](tb, `(() => {
		const { x, y, width, height } = document.querySelector(%q).getBoundingClientRect();
		return { x, y, width, height: %q === "html" ? height : Math.min(height, %d), scale: 1 };
	})()`, selector, selector, maxHeight)
	shot, err := chromedp.Call(tb.Ctx, cdppage.CaptureScreenshot, cdppage.CaptureScreenshotParams{CaptureBeyondViewport: new(true), Clip: &clip})
	must(tb.T, err)
	must(tb.T, os.WriteFile(file, shot.Data, 0o600))
}

// views are what there is to look at, each with a text of an element that it waits for.
var views = []struct {
	name, hash, selector, text string
}{
	{"nodes", "", "#count", "node"},
	{"node", "#node=general-a-000", "#pods", "cart"},
	{"pod", "#view=waiting&pod=shop/huge-0", "#pod .verdict", "today"},
	{"whatif", "#view=whatif&drain=general-a-000", "#whatif-answer .verdict", "without"},
	{"waiting", "#view=waiting", "#waiting", "huge-0"},
	{"moves", "#view=moves", "[data-view=moves] .note", "plans"},
	{"none", "#q=nothing", "#count", "No node matches"},
	{"groups", "#group=pool", "#groups", "general"},
}

func TestPictures(t *testing.T) {
	s := start(t, newPictured(120))
	tb := openPage(t, s)
	tb.Window(1280)
	browser.Call(tb, emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: "UTC"})
	s.tick()
	tb.WaitFor("#health-summary", "1 error")
	file := filepath.Join(*pictures, "ui-nodes.png")
	shoot(tb, file, "body")
	if info, err := os.Stat(file); err != nil || info.Size() > 128<<10 {
		t.Errorf("%s: %v, want at most 128 KiB", file, info.Size())
	}
}

func TestPicturesOfModes(t *testing.T) {
	if *modes == "" {
		return
	}
	for _, nodes := range []int{0, 3, 100, 5000} {
		s := start(t, newPictured(nodes))
		tb := openPage(t, s)
		s.tick()
		tb.WaitFor("#health-summary", "1 error")
		for mode, features := range map[string][]*emulation.MediaFeature{
			"light":    {{Name: "prefers-color-scheme", Value: "light"}},
			"dark":     {{Name: "prefers-color-scheme", Value: "dark"}},
			"contrast": {{Name: "prefers-contrast", Value: "more"}},
			"forced":   {{Name: "forced-colors", Value: "active"}, {Name: "prefers-color-scheme", Value: "dark"}},
		} {
			browser.Call(tb, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: features})
			for _, width := range []int64{360, 768, 1280, 2560} {
				if nodes != 100 && mode != "light" || width != 1280 && mode != "light" {
					continue
				}
				tb.Window(width)
				for _, v := range views {
					if nodes != 100 && v.name != "nodes" {
						continue
					}
					tb.Exec(`location.hash = %q`, v.hash)
					tb.WaitFor(v.selector, v.text)
					if v.name == "moves" && mode == "light" {
						tb.Exec(`document.querySelector("#plan").click()`)
						tb.WaitFor("#moves-answer .verdict", "1 move")
					}
					shoot(tb, filepath.Join(*modes, fmt.Sprintf("%d-%s-%s-%d.png", nodes, v.name, mode, width)), "html")
				}
			}
		}
	}
}
