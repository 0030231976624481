"""What is known of the open model by measurement or estimate: scores, sensitivities, findings of formats."""
