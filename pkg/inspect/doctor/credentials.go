package doctor

import (
	"cmp"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/live"
)

// adviseCertificate says what to do about a certificate that is not trusted; nothing for another error.
func (s *sourceFacts) adviseCertificate() []Advice {
	if unknown, ok := asError[x509.UnknownAuthorityError](s.Err); ok {
		return s.adviseAuthority(unknown.Cert)
	}
	if invalid, ok := asError[x509.CertificateInvalidError](s.Err); ok {
		valid := ""
		if c := invalid.Cert; c != nil {
			valid = fmt.Sprintf(", which is valid from %s to %s", c.NotBefore.UTC().Format(time.RFC3339),
				c.NotAfter.UTC().Format(time.RFC3339))
		}
		return run("", "Ask the server's administrator to renew the certificate%s.", valid)
	}
	host, ok := asError[x509.HostnameError](s.Err)
	u := s.url()
	if !ok || u.Host == "" {
		return nil
	}
	var names []string
	if c := host.Certificate; c != nil {
		for _, name := range c.DNSNames {
			names = append(names, text.Excerpt(name))
		}
		for _, ip := range c.IPAddresses {
			names = append(names, ip.String())
		}
	}
	if len(names) == 0 {
		return run("", "Ask the server's administrator for a certificate for %s.", u.Hostname())
	}
	return write(s.addressYAML(withHost(u, names[0], u.Port())), "The certificate is for %s. %s use that name:", text.FirstN(names),
		s.inConfiguration())
}

// adviseAuthority says how to trust the authority that signed a certificate.
func (s *sourceFacts) adviseAuthority(signed *x509.Certificate) []Advice {
	issuer := "an authority that is not trusted"
	if signed != nil {
		issuer = text.Excerpt(cmp.Or(signed.Issuer.CommonName, signed.Issuer.String()))
	}
	if strings.HasPrefix(issuer, "openshift-service-serving-signer") { // of OpenShift
		return write(providerYAML("caFile", "/var/run/secrets/kubernetes.io/serviceaccount/service-ca.crt"),
			"OpenShift's service CA signed the certificate. %s trust it:", s.inConfiguration())
	}
	u := s.url()
	host := net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), "443"))
	const file = "ca.crt"
	advice := run(
		"openssl s_client -showcerts -connect "+live.ShellQuote(host)+" </dev/null 2>/dev/null | "+
			`awk '/BEGIN CERT/ {c = ""} {c = c $0 "\n"} /END CERT/ {last = c} END {printf "%s", last}' > `+file,
		"%s signed the certificate. Write the last certificate that the server sends to %s, and compare it with the administrator's:",
		issuer,
		file,
	)
	caFile := cmp.Or(s.options.Source.CAFile, s.Spec.MetricProvider.CAFile)
	switch volume, key := s.mounted(caFile); {
	case volume != nil && volume.ConfigMap != nil:
		return append(
			advice,
			run(fmt.Sprintf("kubectl -n %s create configmap %s --from-file=%s=%s --dry-run=client -o yaml | kubectl apply -f -",
				s.workload().Namespace, live.ShellQuote(volume.ConfigMap.Name), live.ShellQuote(key),
				file), "Then write it to the ConfigMap behind caFile:")...)
	case caFile != "":
		return append(advice, run(fmt.Sprintf("cp %s %s", file, live.ShellQuote(caFile)), "Then write it to caFile:")...)
	}
	return append(advice, write(providerYAML("caFile", "/etc/plimsoll/ca/ca.crt"),
		"Then mount it by the chart's value caConfigMap, and %s name it:", lowerFirst(s.inConfiguration()))...)
}

// mounted returns the volume with a file of the scheduler's pod, and the file's key; nil if it is unknown.
func (s *sourceFacts) mounted(file string) (volume *corev1.Volume, key string) {
	w := s.workload()
	if w == nil || len(w.Pods) == 0 || file == "" {
		return nil, ""
	}
	pod := s.objects.pod(w.Namespace, w.Pods[0])
	if pod == nil {
		return nil, ""
	}
	for i := range pod.Spec.Containers {
		for _, mount := range pod.Spec.Containers[i].VolumeMounts {
			below, ok := strings.CutPrefix(file, strings.TrimSuffix(mount.MountPath, "/")+"/")
			j := slices.IndexFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == mount.Name })
			if ok && j >= 0 {
				return &pod.Spec.Volumes[j], path.Base(below)
			}
		}
	}
	return nil, ""
}

// claims are those of a service account's token.
type claims struct {
	Subject string  `json:"sub"`
	Expiry  float64 `json:"exp"`
}

// claimsOf reads the claims of a JSON Web Token, without verifying it. Other tokens have none.
func claimsOf(token string) (c claims) {
	parts := strings.Split(strings.TrimSpace(token), ".")
	if len(parts) != 3 {
		return claims{}
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil || json.Unmarshal(payload, &c) != nil {
		return claims{}
	}
	return c
}

// adviseToken says what to do about a token that a source refuses.
func (s *sourceFacts) adviseToken(code int) []Advice {
	if s.Route == live.ServiceProxy {
		return s.runInPod("Through the API server's proxy no token is sent. Check in the scheduler's pod, with its token:")
	}
	if s.token == "" {
		return write(providerYAML("tokenFile", "/etc/plimsoll/token/token"),
			"No token is sent. Mount one by the chart's value tokenSecret, and %s name it:", lowerFirst(s.inConfiguration()))
	}
	c := claimsOf(s.token)
	expiry := time.Unix(int64(c.Expiry), 0)
	expired := c.Expiry > 0 && expiry.Before(s.now)
	problem := "The server does not accept the token."
	if expired {
		problem = fmt.Sprintf("The token expired %s ago.", rounded(s.now.Sub(expiry)))
	}
	rest, isAccount := strings.CutPrefix(c.Subject, "system:serviceaccount:")
	namespace, account, _ := strings.Cut(rest, ":")
	if !isAccount || !isName(namespace) || !isName(account) {
		return run("", "%s Get a new one from the server's administrator, and write it to tokenFile.", problem)
	}
	if code == http.StatusForbidden && !expired {
		return run(
			fmt.Sprintf(
				"kubectl create clusterrolebinding plimsoll-monitoring-view --clusterrole=cluster-monitoring-view --serviceaccount=%s:%s",
				namespace,
				account,
			),
			"The token is that of %s. If the server authorizes by the API server, as OpenShift's monitoring does, grant the permission:",
			c.Subject,
		)
	}
	create := fmt.Sprintf("kubectl -n %s create token %s --duration=8760h", namespace, account)
	file := cmp.Or(s.options.Source.TokenFile, s.Spec.MetricProvider.TokenFile)
	if volume, key := s.mounted(file); volume != nil && volume.Secret != nil {
		return run(
			fmt.Sprintf(`kubectl -n %s create secret generic %s --from-literal=%s="$(%s)" --dry-run=client -o yaml | kubectl apply -f -`,
				s.workload().Namespace, live.ShellQuote(volume.Secret.SecretName), live.ShellQuote(key), create),
			"%s It is that of %s. Write a new one to the Secret behind tokenFile:",
			problem,
			c.Subject,
		)
	}
	return run(create+" > "+live.ShellQuote(cmp.Or(file, "token")), "%s It is that of %s. Write a new one to tokenFile:", problem,
		c.Subject)
}
