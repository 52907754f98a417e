{{- define "tessera.name" -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- define "tessera.labels" -}}
app.kubernetes.io/name: tessera
app.kubernetes.io/instance: {{ include "tessera.name" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- with .Values.queue }}
kueue.x-k8s.io/queue-name: {{ . }}
{{- end }}
{{- with .Values.labels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "tessera.podLabels" -}}
app.kubernetes.io/name: tessera
app.kubernetes.io/instance: {{ include "tessera.name" . }}
{{- with .Values.labels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "tessera.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}

{{- define "tessera.secret" -}}
{{ .Values.secret.name | default (printf "%s-secret" (include "tessera.name" .)) }}
{{- end -}}

{{/* Where node 0 is met: the name of its pod, which a headless service makes known. */}}
{{- define "tessera.master" -}}
{{- $name := include "tessera.name" . -}}
{{- if eq .Values.kind "jobset" -}}{{ $name }}-node-0-0.{{ $name }}{{- else -}}{{ $name }}-0.{{ $name }}{{- end -}}
{{- end -}}

{{/* The words of `tessera train` and what follows. Ranks end before Kubernetes kills the pod. */}}
{{- define "tessera.words" -}}
- {{ .Values.command | quote }}
- /etc/tessera/run.yaml
- checkpoint.emergency_grace_s={{ max 5 (sub (int .Values.graceSeconds) 30) }}
{{- range .Values.overrides }}
- {{ . | quote }}
{{- end }}
{{- end -}}

{{/* Which failures count. 2: refused input or a full disk, which another try does not mend. 130: asked to stop, and saved. */}}
{{- define "tessera.podFailurePolicy" -}}
rules:
  - action: FailJob
    onExitCodes:
      containerName: tessera
      operator: In
      values: [2]
  - action: Ignore
    onPodConditions:
      - type: DisruptionTarget
        status: "True"
  - action: Ignore
    onExitCodes:
      containerName: tessera
      operator: In
      values: [130]
{{- end -}}

{{- define "tessera.resources" -}}
{{- $all := dict "cpu" (toString .Values.resources.cpu) "memory" .Values.resources.memory -}}
{{- if gt (int .Values.resources.gpus) 0 -}}
{{- $_ := set $all .Values.resources.gpuName (toString .Values.resources.gpus) -}}
{{- end -}}
requests:
  {{- toYaml $all | nindent 2 }}
limits:
  {{- toYaml $all | nindent 2 }}
{{- end -}}

{{- define "tessera.affinity" -}}
{{- $same := dict "matchLabels" (dict "app.kubernetes.io/instance" (include "tessera.name" .)) -}}
{{- $t := .Values.topology -}}
{{- if $t.spread }}
podAntiAffinity:
  preferredDuringSchedulingIgnoredDuringExecution:
    - weight: 100
      podAffinityTerm:
        topologyKey: kubernetes.io/hostname
        labelSelector:
          {{- toYaml $same | nindent 10 }}
{{- end }}
{{- if eq $t.mode "prefer" }}
podAffinity:
  preferredDuringSchedulingIgnoredDuringExecution:
    - weight: 50
      podAffinityTerm:
        topologyKey: {{ $t.key }}
        labelSelector:
          {{- toYaml $same | nindent 10 }}
{{- else if eq $t.mode "require" }}
podAffinity:
  requiredDuringSchedulingIgnoredDuringExecution:
    - topologyKey: {{ $t.key }}
      labelSelector:
        {{- toYaml $same | nindent 8 }}
{{- end }}
{{- end -}}

{{/* What the pods of all kinds have in common, but containers. */}}
{{- define "tessera.pod" -}}
automountServiceAccountToken: false
enableServiceLinks: false
terminationGracePeriodSeconds: {{ .Values.graceSeconds | int }}
{{- with .Values.priority.className }}
priorityClassName: {{ . }}
{{- end }}
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- $selector := dict -}}
{{- if .Values.spot.enable -}}{{- $selector = merge $selector .Values.spot.nodeSelector -}}{{- end -}}
{{- $selector = merge $selector .Values.nodeSelector -}}
{{- with $selector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- $tolerations := .Values.tolerations -}}
{{- if .Values.spot.enable -}}{{- $tolerations = concat .Values.spot.tolerations $tolerations -}}{{- end -}}
{{- with $tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with include "tessera.affinity" . | trim }}
affinity:
  {{- . | nindent 2 }}
{{- end }}
volumes:
  - name: config
    configMap:
      name: {{ include "tessera.name" . }}-config
  - name: secret
    secret:
      secretName: {{ include "tessera.secret" . }}
      defaultMode: 0440
  - name: work
    persistentVolumeClaim:
      claimName: {{ .Values.storage.claim | default (printf "%s-work" (include "tessera.name" .)) }}
  - name: tmp
    emptyDir: {}
  - name: shm
    emptyDir:
      medium: Memory
      sizeLimit: {{ .Values.sharedMemory }}
{{- with .Values.volumes }}
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "tessera.mounts" -}}
- name: config
  mountPath: /etc/tessera
  readOnly: true
- name: secret
  mountPath: /run/tessera
  readOnly: true
- name: work
  mountPath: /train
- name: tmp
  mountPath: /tmp
- name: shm
  mountPath: /dev/shm
{{- with .Values.volumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* A pod whose host is one node of `tessera launch --rdzv`. */}}
{{- define "tessera.node" -}}
restartPolicy: Never
{{- if eq .Values.kind "job" }}
subdomain: {{ include "tessera.name" . }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 1000
  runAsGroup: 1000
  fsGroup: 1000
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile:
    type: RuntimeDefault
{{ include "tessera.pod" . }}
containers:
  - name: tessera
    image: {{ include "tessera.image" . | quote }}
    imagePullPolicy: {{ .Values.image.pullPolicy }}
    workingDir: /train
    command: [tessera]
    args:
      - launch
      - --rdzv
      - {{ include "tessera.master" . }}:{{ .Values.port | int }}
      - --nnodes
      - {{ .Values.nodes | int | quote }}
      - --node-rank
      - $(NODE_RANK)
      - -n
      - {{ .Values.ranksPerNode | int | quote }}
      - --
      {{- include "tessera.words" . | nindent 6 }}
    env:
      - name: NODE_RANK
        valueFrom:
          fieldRef:
            fieldPath: metadata.annotations['batch.kubernetes.io/job-completion-index']
      - name: TESSERA_SECRET_FILE
        value: /run/tessera/secret
      - name: TESSERA_AGENT_PORTS
        value: {{ .Values.agentPorts | quote }}
      {{- with .Values.env }}
      {{- toYaml . | nindent 6 }}
      {{- end }}
    ports:
      - name: rendezvous
        containerPort: {{ .Values.port | int }}
    resources:
      {{- include "tessera.resources" . | nindent 6 }}
    {{- if .Values.probes.enable }}
    # Ready: the ranks have met. A hang is found by comm.timeout_s, which says who hangs and why; the kubelet would not.
    readinessProbe:
      {{- include "tessera.probe" . | nindent 6 }}
      failureThreshold: 1
    livenessProbe:
      {{- include "tessera.probe" . | nindent 6 }}
      failureThreshold: {{ .Values.probes.failures | int }}
    {{- end }}
    securityContext:
      allowPrivilegeEscalation: false
      readOnlyRootFilesystem: true
      capabilities:
        drop: [ALL]
    volumeMounts:
      {{- include "tessera.mounts" . | nindent 6 }}
{{- end -}}

{{- define "tessera.probe" -}}
exec:
  command: [tessera, top, --once]
periodSeconds: {{ .Values.probes.periodSeconds | int }}
timeoutSeconds: 10
{{- end -}}
